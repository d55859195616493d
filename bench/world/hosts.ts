/** Test hosts on this machine, joined by a switch, each uplink as fast as one says: by the tool `hosts`, which needs root. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { PeergradError, messageOf } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Where the hosts reach this machine. */
const ADDRESS = '10.77.0.254';

const run = promisify(execFile);

/**
 * Runs `main` with `count` hosts of lines of `rate` (as tc writes it, `8mbit`); removes them again.
 *
 * @param tool path of `hosts`.
 * @throws (rejects) PeergradError where the tool fails; what `main` rejects with.
 */
export async function withHosts<T>(
  { tool, count, rate }: { tool: string; count: number; rate: string },
  main: (hosts: Hosts) => Promise<T>,
): Promise<T> {
  const call = async (...words: string[]): Promise<string> => {
    try {
      return (await run(tool, words)).stdout.trim();
    } catch (error) {
      throw new PeergradError(`${tool} ${words.join(' ')} failed: ${messageOf(error)}`);
    }
  };
  await call('up', String(count), rate);
  try {
    const executables = [];
    for (let host = 1; host <= count; host++) executables.push(await call('browser', String(host)));
    return await main({ executables, address: ADDRESS });
  } finally {
    await call('down');
  }
}
