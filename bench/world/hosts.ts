/**
 * Test hosts: virtual hosts on this machine that are connected by a switch and whose uplinks have a
 * limited rate. The tool `hosts` creates them and needs root.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Address of this machine in the network of the hosts. */
const ADDRESS = '10.77.0.254';

/**
 * Number of attempts to create hosts. After a host is removed, its network device remains for a
 * moment, and a new host needs the name of this device.
 */
const TRIES = 10;
const AGAIN_MS = 500;
/**
 * Command that prints the link-local address of a host once it is known to be unique. A browser
 * aborts page loads at that moment, so it must start later.
 */
const SETTLED = ['ip', '-6', 'address', 'show', 'dev', 'e0', 'scope', 'link', '-tentative'];

const run = promisify(execFile);

/**
 * Runs `main` with `count` hosts, and removes them afterwards.
 *
 * @param tool path of `hosts`.
 * @param main runs with the hosts. Its `limit` sets the maximum rate of all lines, in the notation
 * of tc (`8mbit`). Call `limit` after pages have loaded, which is faster on uncapped lines.
 * @throws (rejects) UsageError if the tool does not exist or this process is not root,
 * PeergradError if the tool fails, and the errors of `main`.
 */
export async function withHosts<T>(
  { tool, count }: { tool: string; count: number },
  main: (hosts: Hosts, limit: (rate: string) => Promise<void>) => Promise<T>,
): Promise<T> {
  if (!existsSync(tool))
    throw new UsageError(`The tool for test hosts was not found at ${tool}. Pass its path with --hosts.`);
  if (process.getuid?.() !== 0) throw new UsageError('Test hosts need root. Run this as root.');
  const call = async (...words: string[]): Promise<string> => {
    try {
      return (await run(tool, words)).stdout.trim();
    } catch (error) {
      throw new PeergradError(`${tool} ${words.join(' ')} failed: ${messageOf(error)}`);
    }
  };
  try {
    for (let left = TRIES; left > 0; left--) {
      try {
        await call('up', String(count));
        break;
      } catch (error) {
        if (left === 1) throw error;
        await sleep(AGAIN_MS);
      }
    }
    const executables = [];
    for (let host = 1; host <= count; host++) {
      executables.push(await call('browser', String(host)));
      for (let left = TRIES; left > 0 && (await call('exec', String(host), ...SETTLED)) === ''; left--) {
        await sleep(AGAIN_MS);
      }
    }
    return await main({ executables, address: ADDRESS }, async (rate) => {
      for (let host = 1; host <= count; host++) await call('rate', String(host), rate);
    });
  } finally {
    await call('down');
  }
}
