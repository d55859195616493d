/**
 * Test hosts on this machine, connected by a switch, with capped uplinks: created by the tool
 * `hosts`, which needs root.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Address of this machine for the hosts. */
const ADDRESS = '10.77.0.254';

/** A removed host leaves its end of a cable for a moment, under a name that a new one needs. */
const TRIES = 10;
const AGAIN_MS = 500;
/**
 * Waits for a host's self-assigned address until it is known to be unique: a browser drops running
 * loads then.
 */
const SETTLED = ['ip', '-6', 'address', 'show', 'dev', 'e0', 'scope', 'link', '-tentative'];

const run = promisify(execFile);

/**
 * Sets another rate for the traffic between two hosts, counted from 0, in both directions: at this
 * machine's ends of their cables, which `hosts` names thv1, thv2, ...
 *
 * @param rates as in tc (`4mbit`).
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

/** As `hosts` creates its own. */
const BUCKET = ['burst', '64kb', 'latency', '200ms'];
/** Traffic classes, whose token buckets cap the rate. */
const UNCAPPED = '1gbit';

/**
 * Runs `main` with `count` hosts, and removes them afterwards.
 *
 * @param tool path of `hosts`.
 * @param main `limit` caps all lines at a rate, as in tc (`8mbit`): best after pages have loaded
 *   over them.
 * @throws (rejects) UsageError if there is no such tool or permission, PeergradError if it fails;
 *   errors of `main`.
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
