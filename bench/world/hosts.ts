/**
 * Test hosts on this machine, joined by a switch, each uplink as fast as one says: by the tool
 * `hosts`, which needs root.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { messageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import type { Hosts } from './world.ts';

/** Where the hosts reach this machine. */
const ADDRESS = '10.77.0.254';

/**
 * A host that was removed leaves its end of a cable behind for a moment, under the name that a new
 * one needs.
 */
const TRIES = 10;
const AGAIN_MS = 500;
/**
 * Asks for the address that a host gives itself, once it is known that no other has it: a browser
 * drops what it loads by then.
 */
const SETTLED = ['ip', '-6', 'address', 'show', 'dev', 'e0', 'scope', 'link', '-tentative'];

const run = promisify(execFile);

/**
 * Has what goes between two hosts, counted from 0, carried at another rate than the rest, both
 * ways: at this machine's ends of their cables, which `hosts` calls thv1, thv2, ..
 *
 * @param rates as tc writes them (`4mbit`).
 * @throws (rejects) PeergradError where tc cannot.
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

/** As `hosts` makes its own. */
const BUCKET = ['burst', '64kb', 'latency', '200ms'];
/** Of classes, whose buckets are what caps. */
const UNCAPPED = '1gbit';

/**
 * Runs `main` with `count` hosts; removes them again.
 *
 * @param tool path of `hosts`.
 * @param main `limit` caps all lines at a rate, as tc writes it (`8mbit`): best once pages are
 *   loaded, which come over them too.
 * @throws (rejects) UsageError where there is no such tool or nobody may run it, PeergradError
 *   where it fails; what `main` rejects with.
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
