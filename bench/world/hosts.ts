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
 * Sets another rate for the traffic between the hosts `a` and `b` (counted from 0), in both
 * directions. The rate is set on this machine's network devices of these hosts, which `hosts` names
 * thv1, thv2, ...
 *
 * @param rates between the two hosts, and for the rest of their traffic, in the notation of tc
 * (`4mbit`).
 * @throws (rejects) PeergradError if tc fails.
 */
export async function slowBetween(a: number, b: number, rates: { rest: string; between: string }): Promise<void> {
  for (const [to, from] of [
    [a, b],
    [b, a],
  ] as const) {
    const device = `thv${to + 1}`;
    const parent = ['dev', device, 'parent'];
    const bucket = (rate: string): string[] => ['tbf', 'rate', rate, ...BUCKET];
    const commands = [
      ['qdisc', 'replace', 'dev', device, 'root', 'handle', '1:', 'htb', 'default', '1'],
      ['class', 'add', ...parent, '1:', 'classid', '1:1', 'htb', 'rate', UNCAPPED],
      ['class', 'add', ...parent, '1:', 'classid', '1:2', 'htb', 'rate', UNCAPPED],
      ['qdisc', 'add', ...parent, '1:1', ...bucket(rates.rest)],
      ['qdisc', 'add', ...parent, '1:2', ...bucket(rates.between)],
      [
        'filter',
        'add',
        ...parent,
        '1:',
        'protocol',
        'ip',
        'u32',
        'match',
        'ip',
        'src',
        `10.77.0.${from + 1}`,
        'flowid',
        '1:2',
      ],
    ];
    for (const words of commands) {
      try {
        await run('tc', words);
      } catch (error) {
        throw new PeergradError(`tc ${words.join(' ')} failed: ${messageOf(error)}`);
      }
    }
  }
}

/** Parameters of a token bucket; `hosts` uses the same for its own. */
const BUCKET = ['burst', '64kb', 'latency', '200ms'];
/** Rate of the traffic classes. It is no limit, because the token buckets limit the rate. */
const UNCAPPED = '1gbit';

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
