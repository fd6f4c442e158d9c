-- identity = "I3"
-- needs = ["accepted", "parents", "node_tokens", "target_tokens"]
-- sure = true
-- follows = ["I1", "I2"]

-- No child of the last accepted row carries the target's choice: the walk went as far as it could.
-- Some engines leave off behind a stop token, in a step that is a request's last.

SELECT t.id, 'accepted' AS field, t.path_len AS entry, h.row AS expected, NULL AS observed
FROM traced t JOIN odd_row h ON h.id = t.id AND h.parent = t.path_end
WHERE h.chosen AND NOT t.last AND t.cut IS NULL
