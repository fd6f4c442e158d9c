-- identity = "I9"
-- needs = ["ids_read", "node_tokens"]

-- The device verified the tokens that the tree holds, and the root stands in front.

SELECT id, 'ids_read' AS field, row AS entry, token AS expected, id_read AS observed FROM node WHERE id_read <> token
UNION ALL
SELECT id, 'root', 0, root, node_tokens[1] FROM traced WHERE node_tokens[1] <> root
