-- identity = "I8"
-- needs = ["parents"]

-- A parent stands before its children.

SELECT id, 'parents' AS field, row AS entry, NULL AS expected, parent AS observed FROM edge WHERE parent >= row
