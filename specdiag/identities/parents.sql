-- identity = "I8"
-- needs = ["parents"]

-- A parent stands before its children.

SELECT id, 'parents' AS field, row AS entry, NULL AS expected, parent AS observed
FROM (SELECT id, unnest(range(len(parents))) AS row, unnest(parents) AS parent FROM traced
      WHERE len(list_filter(parents, lambda parent, nth: parent >= nth - 1)) > 0)
WHERE parent >= row
