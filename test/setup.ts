import fc from 'fast-check';

// The same cases in every run, so that failures repeat. FAST_CHECK_SEED selects other cases.
fc.configureGlobal({ seed: Number(process.env['FAST_CHECK_SEED'] ?? 2026) });
