-- identity = "I8"
-- needs = ["parents", "depths"]

-- The root has depth 0, and a node is one deeper than its parent.

SELECT id, 'depths' AS field, row AS entry, parent_depth + 1 AS expected, depth AS observed FROM node WHERE row > 0 AND parent < row AND depth <> parent_depth + 1
UNION ALL
SELECT id, 'depths', 0, 0, depth FROM node WHERE row = 0 AND depth <> 0
