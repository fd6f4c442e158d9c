"""The bundled DDTree runtime; it meets the rest of specdiag only in the trace file."""
