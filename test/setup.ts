import fc from 'fast-check';
import './equality.ts';

// fast-check generates the same cases in every run, so that failures can be repeated. Set
// FAST_CHECK_SEED for other cases.
fc.configureGlobal({ seed: Number(process.env['FAST_CHECK_SEED'] ?? 2026) });
