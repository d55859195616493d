/** `tools chaos`: trains in real tabs, injects faults, and reports how the run recovered. */
import { isElasticJob } from '../../src/spec/job.ts';
import { errorMessageOf, PeergradError, UsageError } from '../../src/util/errors.ts';
import { ensureBuilt } from '../../launcher/build.ts';
import type { BackendMode, GpuMode } from '../../launcher/browser/browser.ts';
import { ensureBrowser } from '../../launcher/browser/findBrowser.ts';
import type { Io } from '../../launcher/io.ts';
import { type JobOptions, resolveTraining } from '../../launcher/options/jobOptions.ts';
import { TabPool } from './tabPool.ts';
import { FaultInjector } from './faultInjector.ts';
import { type ChaosReport, reportOf } from './report.ts';
import { planFaults } from './schedule.ts';
import { ServerProcess } from './serverProcess.ts';

export interface ChaosOptions extends JobOptions {
  tabs: number;
  /** Minutes in which faults are injected. */
  minutes?: number;
  json?: true;
  headed?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  /** Seconds. */
  timeout: number;
}

const DEFAULT_MINUTES = 3;
/**
 * The default number of epochs. It is the largest, so that the number of minutes limits the run.
 */
const ENDLESS_EPOCHS = 1000;
/**
 * Steps between two state comparisons. Comparisons are frequent, so that the report shows in which
 * step states began to differ.
 */
const HASH_EVERY = 5;

/**
 * @throws (rejects) UsageError for invalid options, and on Windows. PeergradError if the run did
 *   not recover; the report is printed before this error is thrown.
 */
export async function chaos(options: ChaosOptions, io: Io): Promise<void> {
  if (process.platform === 'win32') {
    throw new UsageError(
      'chaos needs signals to stop processes, and Windows has no such signals. Run it on Linux or macOS.',
    );
  }
  const endsByItself = options.epochs !== undefined || options.steps !== undefined;
  const job = { epochs: ENDLESS_EPOCHS, hashEvery: HASH_EVERY, ...options };
  const resolved = await resolveTraining(job);
  const { seed, strategy } = resolved.job;
  if (!isElasticJob(resolved.job)) {
    throw new UsageError(
      `With the strategy ${strategy}, tabs cannot join and leave during a run. Remove --strategy to use ddp.`,
    );
  }
  const minutes = options.minutes ?? (endsByItself ? options.timeout / 60 : DEFAULT_MINUTES);
  const executable = await ensureBrowser(options.browser, io.err);
  await ensureBuilt(io);

  const { tabs, backend, gpu, headed = false } = options;
  const server = await ServerProcess.start(job, tabs, resolved.served);
  const pool = new TabPool({
    tabs,
    server,
    io,
    timeoutMs: options.timeout * 1000,
    launch: { executable, backend, gpu, headed, probeUrl: new URL('/healthz', server.page).href },
  });
  const injector = new FaultInjector({ pool, server, io });
  let problem: string | null = null;
  try {
    await pool.start();
    io.err(`${tabs} tabs train.`);
    try {
      await injector.inject(planFaults({ seed, minutes, tabs }), minutes);
      if (endsByItself) await pool.finish();
    } catch (error) {
      // The report covers the time until the error.
      io.signal.throwIfAborted();
      problem = errorMessageOf(error);
    }
  } finally {
    await pool.close();
    await server.kill();
  }
  const report = reportOf(pool.observations, injector.faults);
  problem ??= problemOf(report);
  if (options.json === undefined) io.out(summarize(report));
  else io.out(JSON.stringify({ ...report, lost: Object.fromEntries(pool.lost), tabs, minutes, seed, problem }));
  if (problem !== null) throw new PeergradError(problem);
}

/** Returns a sentence with the failed requirements; `null` if all are met. */
function problemOf(report: ChaosReport): string | null {
  const { samplesSkipped, samplesRepeated, hashMismatches, unrecovered } = report;
  const wrong = [
    ...(samplesSkipped > 0 ? [`${samplesSkipped} samples were skipped`] : []),
    ...(samplesRepeated > 0 ? [`${samplesRepeated} samples were repeated`] : []),
    ...(hashMismatches > 0 ? [`the tabs had different states after ${hashMismatches} steps`] : []),
    ...Object.entries(unrecovered).map(([kind, count]) => `training did not recover from ${count} x ${kind}`),
  ];
  return wrong.length === 0 ? null : `The run did not recover from its faults: ${wrong.join(', ')}.`;
}

/** Returns the report as a few lines of text. */
function summarize(report: ChaosReport): string {
  const { steps, faults, membershipChanges, accuracy, recoveryMs, stepGapMs } = report;
  const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
  return [
    `${steps} steps, ${injected} faults, ${membershipChanges} changes of the ranks. One step every ${stepGapMs.toFixed(0)} ms.`,
    ...Object.entries(recoveryMs).map(
      ([kind, { median, max }]) => `${kind}: training continued after ${median} ms (median), at most ${max} ms.`,
    ),
    `${report.samplesSkipped} samples were skipped and ${report.samplesRepeated} repeated. States differed after ${report.hashMismatches} steps.`,
    ...(accuracy === null ? [] : [`Accuracy ${(accuracy * 100).toFixed(1)} %.`]),
  ].join('\n');
}
