-- identity = "I3"
-- needs = ["accepted", "bonus", "target_tokens"]
-- follows = ["I1", "I2"]

-- The bonus is the target's choice at the last accepted row.

SELECT id, 'bonus' AS field, path_end AS entry, choice AS expected, bonus AS observed
FROM traced WHERE bonus <> choice
UNION ALL
SELECT id, 'bonus_row', NULL, path_end, bonus_row FROM traced WHERE bonus_row <> path_end
