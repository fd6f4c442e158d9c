-- identity = "I8"
-- needs = ["parents"]

-- A parent stands before its children and is one less deep; siblings carry different tokens.

SELECT id, 'parents' AS field, row AS entry, NULL AS expected, parent AS observed FROM node WHERE parent >= row
UNION ALL
SELECT id, 'depths', row, parent_depth + 1, depth FROM node WHERE row > 0 AND parent < row AND depth <> parent_depth + 1
UNION ALL
SELECT id, 'depths', 0, 0, depth FROM node WHERE row = 0 AND depth <> 0
