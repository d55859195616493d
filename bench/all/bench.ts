/** `bench all`: every benchmark, one after the other, and docs/BENCHMARKS.md of what they found. */
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Io } from '../../launcher/io.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { replaceSection } from '../table.ts';
import { machineTable } from './machine.ts';
import { partsOf, type Part } from './parts.ts';
import { durationsTable, type Taken } from './durations.ts';

export interface AllOptions {
  /** Folder of MNIST's IDX files, for what trains on them. */
  data?: string;
  /** Command that makes hosts with capped lines, as root. */
  hosts?: string;
  /** Names of those to run; the others' figures stay as they are. */
  only?: readonly string[];
}

const BENCH = fileURLToPath(new URL('../bin.js', import.meta.url));
export const DOC = path.resolve(import.meta.dirname, '../../docs/BENCHMARKS.md');

/**
 * Each is a process of its own, so that one that fails spoils no other.
 *
 * @throws (rejects) PeergradError naming those that failed, once all others have been written down.
 */
export async function benchAll(options: AllOptions, io: Io): Promise<void> {
  const failed: string[] = [];
  const taken: Taken[] = [];
  for (const part of partsOf(options)) {
    if (options.only && !options.only.includes(part.name)) continue;
    io.err(`\n${part.name} ...`);
    const startedAt = performance.now();
    const { code, result } = await run(part, io);
    taken.push({ name: part.name, ms: performance.now() - startedAt });
    if (result !== null) await put(part.name, part.section(result));
    // One that contradicts itself prints what it found all the same.
    if (code !== 0) failed.push(part.name);
  }
  // The figures of parts that were left out are of the machine that the page names.
  if (!options.only) {
    await put('machine', await machineTable());
    await put('durations', durationsTable(taken));
  }
  if (failed.length > 0) throw new PeergradError(`These found something wrong, see above: ${failed.join(', ')}.`);
}

async function put(name: string, content: string): Promise<void> {
  await writeFile(DOC, replaceSection(await readFile(DOC, 'utf8'), name, `\n${content.trim()}\n`));
}

/** @returns the last line it printed, read as JSON; `null` where it printed none. */
async function run({ argv }: Part, io: Io): Promise<{ code: number | null; result: unknown }> {
  const child = spawn(process.execPath, [BENCH, ...argv, '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: io.signal,
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  createInterface(child.stderr).on('line', (line) => io.err(line));
  let last: string | null = null;
  createInterface(child.stdout).on('line', (line) => (last = line));
  const code = await ended;
  return { code, result: last === null ? null : JSON.parse(last) };
}
