/**
 * The command `npm run -s conformance`: runs the cases of docs/CONFORMANCE.md and reports the
 * results.
 */
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { errorMessageOf } from '../../src/util/errors.ts';
import type { ConformanceCase } from './case.ts';
import { CASES } from './cases.ts';
import { runCase } from './runner.ts';
import { SKIPPED, type Skipped } from './skipped.ts';
import { CASES_IN_TABS, TAB_CASES, Tabs } from './tabs.ts';

interface Options {
  json?: true;
  tabs?: true;
  case?: number;
}

/** A case to run. `run` resolves with the failures. */
interface Entry {
  number: number;
  title: string;
  run: () => Promise<string[]>;
}

export interface Report {
  /** Number of cases that ran; cases with the same number are one. */
  cases: number;
  passed: number;
  failed: number;
  skipped: readonly Skipped[];
}

const log = (line: string): void => void process.stderr.write(`${line}\n`);

function numberOf(text: string): number {
  const number = Number(text);
  const isKnown = [...CASES, ...TAB_CASES].some((entry) => entry.number === number);
  if (isKnown || SKIPPED.some((skipped) => skipped.case === number)) return number;
  throw new InvalidArgumentError('There is no such case. See docs/CONFORMANCE.md for a list of cases.');
}

function entriesOf(cases: readonly ConformanceCase[]): Entry[] {
  return cases.map((entry) => ({ ...entry, run: () => runCase(entry) }));
}

function entriesIn(tabs: Tabs): Entry[] {
  return [
    ...CASES_IN_TABS.map((entry) => ({ ...entry, run: () => tabs.runCase(entry) })),
    ...TAB_CASES.map((entry) => ({
      ...entry,
      run: async () => {
        try {
          await entry.run(tabs);
          return [];
        } catch (error) {
          return [errorMessageOf(error)];
        }
      },
    })),
  ];
}

/** Runs the cases one after the other, and prints a line for each on stderr. */
async function runAll(entries: readonly Entry[]): Promise<Pick<Report, 'cases' | 'passed' | 'failed'>> {
  const failed = new Set<number>();
  for (const { number, title, run } of entries) {
    const startedAt = performance.now();
    const failures = await run();
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    log(
      `${failures.length === 0 ? 'ok    ' : 'FAILED'} ${String(number).padStart(3)} ${seconds.padStart(5)} s  ${title}`,
    );
    for (const failure of failures) log(`       case ${number}: ${failure}`);
    if (failures.length > 0) failed.add(number);
  }
  const cases = new Set(entries.map(({ number }) => number)).size;
  return { cases, passed: cases - failed.size, failed: failed.size };
}

/** Returns the requested cases that do not run, with the reason. */
function skippedOf({ tabs, case: only }: Options): Skipped[] {
  const here = new Set((tabs ? [...CASES_IN_TABS, ...TAB_CASES] : CASES).map(({ number }) => number));
  const elsewhere = [...new Set((tabs ? CASES : TAB_CASES).map(({ number }) => number))]
    .filter((number) => !here.has(number))
    .map((number) => ({
      case: number,
      why: tabs
        ? 'This case runs only over memory links. Run it without --tabs.'
        : 'This case runs only in tabs. Use --tabs.',
    }));
  return [...SKIPPED, ...elsewhere]
    .filter((skipped) => only === undefined || skipped.case === only)
    .sort((a, b) => a.case - b.case);
}

async function conformance(options: Options): Promise<void> {
  const tabs = options.tabs ? await Tabs.start() : null;
  const close = async (): Promise<void> => tabs?.close();
  process.once('SIGINT', () => void close().finally(() => process.exit(130)));
  try {
    const all = tabs ? entriesIn(tabs) : entriesOf(CASES);
    const entries = all.filter(({ number }) => options.case === undefined || number === options.case);
    const report: Report = { ...(await runAll(entries)), skipped: skippedOf(options) };
    const { cases, passed, failed, skipped } = report;
    if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`);
    else
      process.stdout.write(`${passed} of ${cases} cases passed, ${failed} failed, ${skipped.length} were skipped.\n`);
    if (failed > 0) process.exitCode = 1;
  } finally {
    await close();
  }
}

const program = new Command('conformance')
  .exitOverride()
  .description(
    'Run the conformance cases of docs/CONFORMANCE.md, either over memory links in this process or in real tabs.',
  )
  .option('--json', 'print {cases, passed, failed, skipped} as one JSON object on stdout')
  .option('--case <n>', 'run only this case', numberOf)
  .option('--tabs', 'run the cases for tabs, in real Chromium tabs over WebRTC')
  .action(conformance);

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  // Like other commands, this one exits with 2 for bad arguments, and with 0 after --help.
  process.exitCode = error.exitCode === 0 ? 0 : 2;
}
