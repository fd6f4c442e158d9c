-- identity = "I8"
-- needs = ["parents"]

-- A parent stands before its children.

SELECT id, 'parents' AS field, row AS entry, NULL AS expected, parent AS observed FROM odd_row SEMI JOIN traced USING (id) WHERE parent >= row
