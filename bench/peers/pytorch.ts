/** Runs pytorch.py, which takes its turns with the libraries in tabs. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { PeergradError } from '../../src/util/errors.ts';
import { ADAM, BATCHES, type Problem, type Turn } from './args.ts';

export interface PyTorch {
  turn(steps: number): Promise<Turn>;
  close(): void;
}

/** @param python a Python program that has PyTorch. */
export function openPyTorch(python: string, problem: Problem): PyTorch {
  const child = spawn(python, [path.join(import.meta.dirname, 'pytorch.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  // If Python ends early, its output ends, which is reported.
  child.stdin.on('error', () => {});
  child.stdin.write(`${JSON.stringify({ ...problem, adam: ADAM, batches: BATCHES })}\n`);
  return {
    turn: async (steps) => {
      child.stdin.write(`${steps}\n`);
      const { value } = (await lines.next()) as IteratorResult<string, undefined>;
      if (value === undefined) throw new PeergradError('PyTorch ended without a result. See its message above.');
      return JSON.parse(value) as Turn;
    },
    close: () => child.stdin.end(),
  };
}
