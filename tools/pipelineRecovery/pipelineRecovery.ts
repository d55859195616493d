/**
 * `tools pipeline-recovery`: pipelines in real tabs. In each run one tab, with its stage, is killed
 * at a random point.
 */
import { DEFAULT_JOB, parseJob } from '../../src/spec/job.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { median } from '../../src/util/statistics.ts';
import { startSignaling } from '../../signaling/index.ts';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { ensureBrowser } from '../../launcher/browser/findBrowser.ts';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { runTrial, type Trial } from './trial.ts';

export interface PipelineRecoveryOptions {
  tabs: number;
  /** Stages of a replica; by default as many as tabs. */
  stages?: number;
  steps: number;
  seeds: number;
  json?: true;
  browser?: string;
}

/** The report of the command. */
interface PipelineRecoveryReport {
  seeds: number;
  tabs: number;
  stages: number;
  samplesSkipped: number;
  samplesRepeated: number;
  /** Number of runs whose remaining tabs had different states. */
  hashMismatches: number;
  /** Number of runs that did not take all steps, or did not continue after the kill. */
  unfinished: number;
  /** Undone steps: the largest number in one run, and the sum over all runs. */
  stepsLost: { max: number; total: number };
  /** Times from a kill until training continued; `null` if it never did. */
  recoveryMs: { median: number; max: number } | null;
  trials: Trial[];
}

/** With two blocks, there are six layers. */
const MODEL = { ...DEFAULT_JOB.gpt, layers: 2, width: 32, context: 16 };

/**
 * @throws (rejects) PeergradError if a tab fails, or samples were skipped or repeated, or states
 *   differ; the report is printed before this error is thrown.
 */
export async function pipelineRecovery(options: PipelineRecoveryOptions, io: Io): Promise<void> {
  const { tabs, stages = tabs, steps, seeds, json, browser: given } = options;
  const job = parseJob({
    job: 'gpt',
    gpt: MODEL,
    strategy: 'pipeline',
    stages,
    batchSize: 4,
    maxSteps: steps,
    hashEvery: 1,
  });
  const executable = await ensureBrowser(given, io.err);
  await ensureBuilt(io);
  const server = await startSignaling({ dist: DIST });
  const browser = await launchBrowser({ executable, backend: 'wasm' });
  const trials: Trial[] = [];
  try {
    for (let seed = 1; seed <= seeds; seed++) {
      io.signal.throwIfAborted();
      const trial = await runTrial({ browser, server, job, tabs, seed });
      trials.push(trial);
      io.err(
        `Seed ${seed}: ${trial.kill} of rank ${trial.victim} ${trial.delayMs} ms after step ${trial.killedAt}. Training continued after ` +
          `${trial.recoveryMs} ms, ${trial.stepsLost} steps lost.`,
      );
    }
  } finally {
    await closeBrowser(browser);
    await server.close();
  }
  const report = reportOf(trials, { tabs, stages, steps });
  io.out(json ? JSON.stringify(report) : summarize(report));
  const { samplesSkipped, samplesRepeated, hashMismatches, unfinished } = report;
  if (samplesSkipped + samplesRepeated + hashMismatches + unfinished > 0) {
    throw new PeergradError('A pipeline did not recover from the loss of a stage. See the report above.');
  }
}

/** @param steps number of steps of a complete run. */
export function reportOf(
  trials: Trial[],
  { tabs, stages, steps }: { tabs: number; stages: number; steps: number },
): PipelineRecoveryReport {
  const sum = (valueOf: (trial: Trial) => number): number => trials.reduce((total, trial) => total + valueOf(trial), 0);
  const recovery = trials.flatMap(({ recoveryMs }) => recoveryMs ?? []);
  return {
    ...{ seeds: trials.length, tabs, stages },
    samplesSkipped: sum(({ samplesSkipped }) => samplesSkipped),
    samplesRepeated: sum(({ samplesRepeated }) => samplesRepeated),
    hashMismatches: trials.filter(({ hashMismatches }) => hashMismatches > 0).length,
    unfinished: trials.filter((trial) => trial.steps !== steps || trial.recoveryMs === null).length,
    stepsLost: {
      max: Math.max(...trials.map(({ stepsLost }) => stepsLost)),
      total: sum(({ stepsLost }) => stepsLost),
    },
    recoveryMs: recovery.length === 0 ? null : { median: median(recovery), max: Math.max(...recovery) },
    trials,
  };
}

function summarize({ seeds, tabs, stages, stepsLost, recoveryMs, ...report }: PipelineRecoveryReport): string {
  return [
    `${seeds} runs of ${tabs} tabs with pipelines of ${stages} stages. In each run, one tab was killed.`,
    `${report.samplesSkipped} samples were skipped and ${report.samplesRepeated} repeated; states of ${report.hashMismatches} runs differ; ` +
      `${report.unfinished} runs did not continue.`,
    `At most ${stepsLost.max} steps of a run were lost.`,
    recoveryMs === null
      ? 'Training never continued.'
      : `Training continued ${recoveryMs.median} ms after a kill (median), at most ${recoveryMs.max} ms.`,
  ].join('\n');
}
