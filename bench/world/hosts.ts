/** Test hosts on this machine, joined by a switch, each uplink as fast as one says: by the tool `hosts`, which needs root. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { messageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Where the hosts reach this machine. */
const ADDRESS = '10.77.0.254';

const run = promisify(execFile);

/**
 * Runs `main` with `count` hosts; removes them again.
 *
 * @param tool path of `hosts`.
 * @param main `limit` caps all lines at a rate, as tc writes it (`8mbit`): best once pages are loaded, which come over them too.
 * @throws (rejects) UsageError where there is no such tool or nobody may run it, PeergradError where it fails; what `main` rejects with.
 */
export async function withHosts<T>(
  { tool, count }: { tool: string; count: number },
  main: (hosts: Hosts, limit: (rate: string) => Promise<void>) => Promise<T>,
): Promise<T> {
  if (!existsSync(tool))
    throw new UsageError(`There is no tool for test hosts at ${tool}: give its path with --hosts.`);
  if (process.getuid?.() !== 0) throw new UsageError('Test hosts need root: run this as root.');
  const call = async (...words: string[]): Promise<string> => {
    try {
      return (await run(tool, words)).stdout.trim();
    } catch (error) {
      throw new PeergradError(`${tool} ${words.join(' ')} failed: ${messageOf(error)}`);
    }
  };
  try {
    await call('up', String(count));
    const executables = [];
    for (let host = 1; host <= count; host++) executables.push(await call('browser', String(host)));
    return await main({ executables, address: ADDRESS }, async (rate) => {
      for (let host = 1; host <= count; host++) await call('rate', String(host), rate);
    });
  } finally {
    await call('down');
  }
}
