/** Default periods of the strategies that train alone between exchanges, in steps. */
import type { Streaming } from './fragments.ts';

export const LOCAL_SGD_STEPS = 8;
/**
 * The DiLoCo paper's 500 suit runs of 100 000 steps; runs here have a few hundred steps. For
 * measurements see docs/STRATEGIES.md.
 */
export const DILOCO_STEPS = 20;
/** The Streaming DiLoCo paper recommends a mixing of 0.5 and a delay of up to 5 steps. */
export const STREAMING: Streaming = { fragments: 4, delay: 4, mixing: 0.5 };
/** Measured, see docs/STRATEGIES.md. */
export const SPARSE_STEPS = 20;
