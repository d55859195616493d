/** Compares this project's results with PyTorch's for the same inputs. */
import path from 'node:path';
import { runPython } from './python.ts';
import type { Suite } from './suite.ts';
import { clip } from './suites/clip.ts';
import { ddp } from './suites/ddp.ts';
import { exported } from './suites/exported.ts';
import { gpt } from './suites/gpt.ts';
import { join } from './suites/join.ts';
import { losses } from './suites/losses.ts';
import { optimizers } from './suites/optimizers.ts';
import { powerSgd, powerSgdErrorFeedback } from './suites/powerSgd.ts';
import { syncBatchNorm } from './suites/syncBatchNorm.ts';

/**
 * Difference between this project's result and PyTorch's in one case. reference.py defines the
 * unit.
 */
export interface Difference {
  case: string;
  difference: number;
  /** Mean loss of every step, if the case is about losses. */
  curves?: { ours: number[]; torch: number[] };
}

export interface Comparison {
  suite: string;
  tolerance: number;
  cases: Difference[];
}

export const SUITES: readonly Suite[] = [
  optimizers,
  clip,
  syncBatchNorm,
  ddp,
  join,
  losses,
  gpt,
  powerSgd,
  powerSgdErrorFeedback,
  exported,
];

const REFERENCE = path.join(import.meta.dirname, 'reference.py');
/**
 * Compares the results of a suite with PyTorch's.
 *
 * @throws (rejects) Error with Python's output if Python fails.
 */
export async function compareWithTorch(python: string, suite: Suite): Promise<Comparison> {
  const { name, tolerance } = suite;
  const output = await runPython(python, [REFERENCE, name], JSON.stringify(await suite.compute()));
  return { suite: name, tolerance, cases: JSON.parse(output) as Difference[] };
}
