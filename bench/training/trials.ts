/** Trains several variants of a job in separate processes, two at a time. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { Io } from '../../launcher/io.ts';
import { errorMessageOf, UsageError } from '../../src/util/errors.ts';
import { LoadGenerator } from '../signaling/child.ts';
import type { TrialOrder, TrialResult } from './trial.ts';

/**
 * Number of training processes that run at once, for the two cores that this project's tests
 * assume.
 */
const PROCESSES = 2;

interface NamedOrder extends TrialOrder {
  name: string;
}

/** Resolves with the results in the order of `orders`. */
export async function runTrials(orders: readonly NamedOrder[], io: Pick<Io, 'err'>): Promise<TrialResult[]> {
  const results: TrialResult[] = [];
  const queue = [...orders.entries()];
  const work = async (): Promise<void> => {
    const child = new LoadGenerator(new URL('./trial.ts', import.meta.url).href);
    try {
      await child.next();
      for (let next = queue.shift(); next; next = queue.shift()) {
        const [i, { name, ...order }] = next;
        io.err(`${name} ...`);
        results[i] = await child.ask<TrialResult>(order);
      }
    } finally {
      await child.stop();
    }
  };
  await Promise.all(Array.from({ length: PROCESSES }, work));
  return results;
}

/**
 * Returns the fields and files of a job on MNIST, or on generated digits if there is no folder.
 *
 * @throws UsageError if the folder cannot be read.
 */
export function digitsOrder(folder: string | undefined): { fields: Record<string, unknown>; files: string[] } {
  if (folder === undefined) return { fields: {}, files: [] };
  return { fields: { job: 'mnist', data: { kind: 'files' } }, files: filesOf(folder) };
}

function filesOf(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => path.join(folder, name));
  } catch (error) {
    throw new UsageError(`${folder} cannot be read: ${errorMessageOf(error)}. Pass a folder with MNIST's IDX files.`);
  }
}
