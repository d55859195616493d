/** Test hosts on this machine, joined by a switch, each uplink as fast as one says: by the tool `hosts`, which needs root. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { PeergradError, messageOf } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Where the hosts reach this machine. */
const ADDRESS = '10.77.0.254';

const run = promisify(execFile);

/**
 * Runs `main` with `count` hosts; removes them again.
 *
 * @param tool path of `hosts`.
 * @param main `limit` caps all lines at a rate, as tc writes it (`8mbit`): best once pages are loaded, which come over them too.
 * @throws (rejects) PeergradError where the tool fails; what `main` rejects with.
 */
export async function withHosts<T>(
  { tool, count }: { tool: string; count: number },
  main: (hosts: Hosts, limit: (rate: string) => Promise<void>) => Promise<T>,
): Promise<T> {
  const call = async (...words: string[]): Promise<string> => {
    try {
      return (await run(tool, words)).stdout.trim();
    } catch (error) {
      throw new PeergradError(`${tool} ${words.join(' ')} failed: ${messageOf(error)}`);
    }
  };
  await call('up', String(count));
  try {
    const executables = [];
    for (let host = 1; host <= count; host++) executables.push(await call('browser', String(host)));
    return await main({ executables, address: ADDRESS }, async (rate) => {
      for (let host = 1; host <= count; host++) await call('rate', String(host), rate);
    });
  } finally {
    await call('down');
  }
}
