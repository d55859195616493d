/** `bench all`: runs all benchmarks and writes their results to docs/BENCHMARKS.md. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { allReduce } from '../allreduce/benchmark.ts';
import { classroom } from '../classroom/benchmark.ts';
import type { Benchmark } from './defineBenchmark.ts';
import { gpu } from '../gpu/benchmark.ts';
import { input } from '../input/benchmark.ts';
import { link } from '../link/benchmark.ts';
import { methods } from '../methods.ts';
import { peers } from '../peers/benchmark.ts';
import { pipeline } from '../pipeline/benchmark.ts';
import { scale } from '../scale/benchmark.ts';
import { signaling } from '../signaling/benchmark.ts';
import { step } from '../step/benchmark.ts';
import { strategies } from '../strategies.ts';
import { replaceSection, table } from '../../tools/report/table.ts';

export interface AllOptions {
  /** Folder with MNIST's IDX files, for benchmarks that train on them. */
  data?: string;
  /** Names of the benchmarks to run. The sections of other benchmarks are not changed. */
  only?: readonly string[];
}

const BENCH = fileURLToPath(new URL('./main.ts', import.meta.url));
export const DOC = path.resolve(import.meta.dirname, '../../docs/BENCHMARKS.md');

/**
 * Runs all benchmarks and writes the page. Each benchmark runs in its own process, so that a
 * failure does not affect the other benchmarks.
 *
 * @throws (rejects) PeergradError with the names of failed benchmarks, after all results are
 * written.
 */
export async function benchAll(options: AllOptions, io: Io): Promise<void> {
  const failed: string[] = [];
  for (const part of partsOf(options)) {
    if (options.only && !options.only.includes(part.name)) continue;
    io.err(`\n${part.name} ...`);
    const { code, result } = await run(part, io);
    if (result !== null) await put(part.name, part.section(result));
    // A benchmark that fails its checks also prints its result.
    if (code !== 0) failed.push(part.name);
  }
  // With `--only`, the other sections were measured on the machine that the page names, so it is
  // not replaced.
  if (!options.only) await put('machine', await machineTable());
  if (failed.length > 0)
    throw new PeergradError(`These benchmarks failed: ${failed.join(', ')}. See their messages above.`);
}

async function put(name: string, content: string): Promise<void> {
  await writeFile(DOC, replaceSection(await readFile(DOC, 'utf8'), name, `\n${content.trim()}\n`));
}

/**
 * Runs a benchmark. Resolves with its exit code and its last printed line, parsed as JSON; `null`
 * without output.
 */
async function run({ argv }: Part, { signal }: Io): Promise<{ code: number | null; result: unknown }> {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), BENCH, ...argv, '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    signal,
  });
  const closed = once(child, 'close') as Promise<[number | null]>;
  const [output, [code]] = await Promise.all([text(child.stdout), closed]);
  const last = output.trim().split('\n').at(-1)!;
  return { code, result: last === '' ? null : JSON.parse(last) };
}

interface Part {
  /** Name of the markers in docs/BENCHMARKS.md, usually that of the command. */
  name: string;
  argv: readonly string[];
  section: (result: unknown) => string;
}

/**
 * All benchmarks in the order of their sections, with the options that `all` passes to them. A
 * benchmark with two sections has a name for the second.
 */
const PARTS: readonly (readonly [Benchmark, argv: readonly string[], name?: string])[] = [
  [allReduce, []],
  [allReduce, ['--transport', 'server', '--bytes', String(4 * 1024 * 1024)], 'served'],
  [link, []],
  [step, ['--rate', '15', '--picture', 'docs/buckets.png']],
  [gpu, []],
  [peers, []],
  [methods, []],
  [strategies, []],
  [scale, ['--picture', 'docs/scale.png']],
  [signaling, []],
  [classroom, []],
  [input, []],
  [pipeline, []],
];

export const BENCHMARKS = [...new Set(PARTS.map(([benchmark]) => benchmark))];

export function partsOf({ data }: Pick<AllOptions, 'data'>): Part[] {
  return PARTS.map(([{ name: command, section }, argv, name = command]) => {
    const own = command === 'methods' && data !== undefined ? ['--data', data] : [];
    return { name, argv: [command, ...argv, ...own], section };
  });
}

const GIB = 2 ** 30;

/** Returns a table of the machine, the browser and the WebGPU adapter. */
async function machineTable(): Promise<string> {
  const cores = cpus();
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage();
    // WebGPU needs a secure context. This URL has one and needs no server.
    await page.goto('chrome://version');
    const adapter = await page.evaluate(async () => {
      const info = (await navigator.gpu?.requestAdapter())?.info;
      return info ? `${info.vendor} ${info.architecture} ${info.description}`.trim() : 'none';
    });
    return table(
      ['machine', 'kind'],
      [
        ['processor', `${cores.length} x ${cores[0]?.model ?? 'unknown'}`],
        ['memory', `${Math.round(totalmem() / GIB)} GiB`],
        ['WebGPU adapter', adapter],
        ['browser', `Chromium ${browser.version()}, headless`],
        ['Node', process.version],
        ['date', new Date().toISOString().slice(0, 10)],
      ],
    );
  } finally {
    await closeBrowser(browser);
  }
}
