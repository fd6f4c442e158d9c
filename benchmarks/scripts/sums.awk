# Four sums over the decode lines of a server's log, in the three ways in which they are written.
BEGIN { FS = ", |: " }
/Decode batch/ {
    if ($2 == "#running-req") {
        if (NF == 17) { n++; r += $3; t += $5; g += $15; q += $17 }
    } else if (NF == 17) { n++; r += $2; t += $4; g += $14; q += $16 }
    else if (NF == 15) { n++; r += $2; t += $4; g += $10; q += $14 }
}
END { printf "{\"decode\": %d, \"running\": %d, \"tokens\": %.0f, \"speed\": %.2f, \"queued\": %d}\n", n, r, t, g, q }
