-- identity = "taps"
-- needs = ["tap_layers_read"]

-- The drafter is given the output of the layers that it was trained on.

SELECT id, CASE WHEN list_contains(tap_layers_read, -1) OR list_unique(tap_layers_read) < list_unique(tap_layers) THEN 'tap_alias' ELSE 'tap_layers' END AS field,
    NULL AS entry, tap_layers::VARCHAR AS expected, tap_layers_read::VARCHAR AS observed
FROM traced WHERE tap_layers_read <> tap_layers
