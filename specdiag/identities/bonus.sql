-- identity = "I3"
-- needs = ["accepted", "bonus", "target_tokens"]
-- follows = ["I1", "I2"]

-- The bonus is the target's choice at the last accepted row.

SELECT id, 'bonus' AS field, accepted[-1] AS entry, target_tokens[accepted[-1] + 1] AS expected, bonus AS observed
FROM traced WHERE bonus <> target_tokens[accepted[-1] + 1]
UNION ALL
SELECT id, 'bonus_row', NULL, accepted[-1], bonus_row FROM traced WHERE bonus_row <> accepted[-1]
