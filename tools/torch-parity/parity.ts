/** Compares this project's results with PyTorch's for the same inputs. */
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import type { Suite } from './suite.ts';
import { clip } from './suites/clip.ts';
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
  join,
  losses,
  gpt,
  powerSgd,
  powerSgdErrorFeedback,
  exported,
];

/**
 * Python programs to try. Debian's Python is the first, because it finds the package python3-torch.
 */
const PYTHONS = ['/usr/bin/python3', 'python3'];
const REFERENCE = path.join(import.meta.dirname, 'reference.py');
/**
 * Milliseconds for Python to compare one suite. PyTorch takes seconds to load, in each process of a
 * group.
 */
const TIMEOUT_MS = 120_000;

/**
 * Returns the Python program that has PyTorch, and PyTorch's version; `null` if PyTorch is not
 * installed.
 */
export function findTorch(): { python: string; version: string } | null {
  for (const python of PYTHONS) {
    const { status, stdout } = spawnSync(python, ['-c', 'import torch; print(torch.__version__)'], {
      encoding: 'utf8',
    });
    if (status === 0) return { python, version: stdout.trim() };
  }
  return null;
}

/**
 * Compares the results of a suite with PyTorch's.
 *
 * @throws (rejects) Error with Python's output if Python fails.
 */
export async function compareWithTorch(python: string, suite: Suite): Promise<Comparison> {
  const { name, tolerance } = suite;
  const output = await runPython(python, name, JSON.stringify(await suite.compute()));
  return { suite: name, tolerance, cases: JSON.parse(output) as Difference[] };
}

function runPython(python: string, suite: string, input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, [REFERENCE, suite], { timeout: TIMEOUT_MS });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${python} ${REFERENCE} ${suite} ended with ${signal ?? code}:\n${stderr}`));
    });
    // If Python exits without reading its input, this write error does not matter: the exit code is
    // reported.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
