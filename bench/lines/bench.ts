/**
 * `bench lines`: an all-reduce over lines of a known rate, a browser on each of several test hosts. Such hosts are made by a script
 * outside of this project, which knows `up N RATE`, `browser I` and `down`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Io } from '../../launcher/io.ts';
import { messageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import { rowOf, theoryBytes } from '../allreduce/figures.ts';
import { World, type Hosts } from '../world/world.ts';
import { tableOf, type LinesResult } from './section.ts';

export interface LinesBenchOptions {
  hosts: string;
  tabs: number;
  /** Megabits a second. */
  rate: number;
  bytes: number;
  json?: true;
}

/** Where the script's hosts reach this machine. */
const ADDRESS = '10.77.0.254';
/** Measured, after as many as SCTP needs to find out what the line bears. */
const OPS = 5;
const WARM_UPS = 2;

/**
 * @throws (rejects) UsageError where there is no such script or nobody may run it, PeergradError where hosts do not come up or a tab
 *   fails.
 */
export async function benchLines({ hosts, tabs, rate, bytes, json }: LinesBenchOptions, io: Io): Promise<void> {
  if (!existsSync(hosts)) {
    throw new UsageError(`There is no script for test hosts at ${hosts}: give its path with --hosts.`);
  }
  if (process.getuid?.() !== 0) throw new UsageError('Test hosts need root: run this as root.');
  const call = (...args: string[]): string => callScript(hosts, args);
  try {
    call('up', String(tabs), `${rate}mbit`);
    const executables = Array.from({ length: tabs }, (_, i) => call('browser', String(i + 1)).trim());
    const result = await measure(tabs, { executables, address: ADDRESS }, rate, bytes);
    io.out(json === undefined ? tableOf(result) : JSON.stringify(result));
  } finally {
    call('down');
  }
}

async function measure(n: number, hosts: Hosts, rate: number, bytes: number): Promise<LinesResult> {
  const world = await World.open(n, { hosts });
  try {
    await world.run('allReduce', { bytes, ops: WARM_UPS, isInPlace: true });
    const ours = await world.run('allReduce', { bytes, ops: OPS, isInPlace: true });
    await world.run('bareRing', { bytes, ops: WARM_UPS });
    const raw = await world.run('bareRing', { bytes, ops: OPS });
    const { medianMs, rawMedianMs, wrong, bytesSentPerRank } = rowOf({ n, bytes, isInPlace: true }, ours, raw);
    const lineMs = (theoryBytes(n, bytes) * 8) / (rate * 1000);
    return {
      n,
      bytes,
      rateMbit: rate,
      medianMs,
      lineMs,
      ratio: medianMs / lineMs,
      rawMedianMs,
      bytesSentPerRank,
      wrong,
    };
  } finally {
    await world.close();
  }
}

function callScript(script: string, args: readonly string[]): string {
  try {
    return execFileSync(script, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stderr = messageOf(error) } = error as { stderr?: string };
    throw new PeergradError(`${script} ${args.join(' ')} failed: ${stderr.trim()}`);
  }
}
