-- identity = "I2"
-- needs = ["accepted", "node_tokens", "target_tokens"]

-- An accepted node carries the target's choice at its parent.

SELECT id, 'node_tokens' AS field, row AS entry, wanted AS expected, token AS observed
FROM odd_move SEMI JOIN traced USING (id) WHERE token <> wanted
