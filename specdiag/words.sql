-- The words that rules have beyond SQL.

-- A place in a file, and the first few of them.
CREATE MACRO cite(source, line) AS {'source': source, 'line': line};
CREATE MACRO first_few(places) AS list_sort(list_distinct(places))[:4];

-- A text that a message has room for.
CREATE MACRO shortened(text, most) AS CASE WHEN length(text) > most THEN rtrim(left(text, most - 1)) || '…' ELSE text END;

-- Whether drafts are copied from what was there before: on text that repeats nothing, few are accepted.
CREATE MACRO copies(algorithm) AS coalesce(algorithm SIMILAR TO '.*(NGRAM|SUFFIX|LOOKUP).*', false);

-- How many standard errors are more than chance. Of a thousand runs one or two are far out however
-- sound they are, so thresholds, which are meant for thirty runs at once, rise with their number
-- (Bonferroni, by the tail of the normal distribution).
CREATE MACRO sure(errors) AS sqrt(errors ** 2 + 2 * ln(greatest(1, (SELECT count(*) FROM run) / 30)));

-- The steps of each run that break one of these identities in one of these fields ([]: in any). What
-- is told of them is told of the first one.
CREATE MACRO broken(names, fields) AS TABLE
SELECT run, count(DISTINCT cite(source, line)) AS steps,
    arg_min(request, place) AS request, arg_min(step, place) AS step, arg_min(field, place) AS field,
    arg_min(entry, place) AS entry, arg_min(entries, place) AS entries,
    arg_min(expected, place) AS expected, arg_min(observed, place) AS observed,
    list_sort(list(DISTINCT field)) AS fields, first_few(list(cite(source, line))) AS lines
FROM (SELECT *, {'source': source, 'line': line, 'nth': list_position(fields, field)} AS place
      FROM replay)
WHERE list_contains(names, identity) AND (len(fields) = 0 OR list_contains(fields, field))
GROUP BY run;

-- How a message names the first of them.
CREATE MACRO in_step(request, step, steps) AS concat(
    'step ', coalesce(step::VARCHAR, '?'), coalesce(' of request ' || request, ''),
    CASE WHEN steps > 1 THEN concat(' and ', steps - 1, CASE WHEN steps = 2 THEN ' other' ELSE ' others' END) ELSE '' END
);

-- How much a text repeats itself: the share of its windows of four words that stood in it before, of
-- a text without spaces its windows of eight characters. Prose has next to none, a loop nothing
-- else. NULL where the text is too short to tell.
CREATE MACRO repeated_share(windows) AS 1 - len(list_distinct(windows)) / len(windows);
CREATE MACRO repetition_of(text, words) AS CASE
    WHEN len(words) >= 40 THEN repeated_share(list_transform(range(1, len(words) - 2), lambda i: array_to_string(words[i:i + 3], ' ')))
    WHEN length(text) >= 120 THEN repeated_share(list_transform(range(1, length(text) - 6), lambda i: substr(text, i, 8))) END;
CREATE MACRO repetition(text) AS repetition_of(trim(text), string_split_regex(trim(text), '\s+'));
