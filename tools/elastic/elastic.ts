/**
 * `tools elastic`: jobs of `elastic` in real tabs. In each job one of four tabs is killed at a
 * random step, and another tab joins.
 */
import { PeergradError } from '../../src/util/errors.ts';
import { quantile } from '../../src/util/statistics.ts';
import { startSignaling } from '../../signaling/index.ts';
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { ensureBrowser } from '../../launcher/browser/findBrowser.ts';
import type { Io } from '../../launcher/io.ts';
import { buildPage } from '../buildPage.ts';
import type { Job } from './job.ts';
import { runTrial, type Trial } from './trial.ts';

const PAGE = 'tools/elastic/page.html';

export interface ElasticOptions {
  seeds: number;
  backend: Job['backend'];
  json?: true;
  browser?: string;
}

/** The report of the command. */
export interface ElasticReport {
  seeds: number;
  samplesSkipped: number;
  samplesRepeated: number;
  /** Number of jobs whose tabs ended with different weights. */
  hashMismatches: number;
  /** The largest number of steps of a tab that were lost by the kill and the join together. */
  stepsRepeated: number;
  recoveryMs: { median: number; max: number };
  trials: Trial[];
}

/**
 * @throws (rejects) PeergradError if samples were skipped or repeated, or weights differ; the
 *   report is printed before this error is thrown.
 */
export async function elastic({ seeds, backend, json, browser: path }: ElasticOptions, io: Io): Promise<void> {
  const executable = await ensureBrowser(path, io.err);
  const { dist, remove } = await buildPage(PAGE);
  const server = await startSignaling({ dist });
  const browser = await launchBrowser({ executable });
  const trials: Trial[] = [];
  try {
    for (let seed = 0; seed < seeds; seed++) {
      io.signal.throwIfAborted();
      const trial = await runTrial({ browser, url: `${server.url}/${PAGE}`, seed, backend });
      trials.push(trial);
      io.err(
        `Seed ${seed}: ${trial.kill} at step ${trial.killedAt}, join at step ${trial.joinedAt}, continued after ` +
          `${trial.recoveryMs} ms, ${trial.stepsRepeated} steps repeated.`,
      );
    }
  } finally {
    await closeBrowser(browser);
    await server.close();
    await remove();
  }
  const report = reportOf(trials);
  io.out(json ? JSON.stringify(report) : summarize(report));
  if (report.samplesSkipped + report.samplesRepeated + report.hashMismatches > 0) {
    throw new PeergradError('An elastic job has lost or repeated samples, or its tabs have different weights.');
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function reportOf(trials: Trial[]): ElasticReport {
  const recovery = trials.map(({ recoveryMs }) => recoveryMs);
  return {
    seeds: trials.length,
    samplesSkipped: sum(trials.map(({ samplesSkipped }) => samplesSkipped)),
    samplesRepeated: sum(trials.map(({ samplesRepeated }) => samplesRepeated)),
    hashMismatches: trials.filter(({ hashes }) => new Set(hashes).size > 1).length,
    stepsRepeated: Math.max(...trials.map(({ stepsRepeated }) => stepsRepeated)),
    recoveryMs: { median: quantile(recovery, 0.5), max: Math.max(...recovery) },
    trials,
  };
}

function summarize({ seeds, recoveryMs, ...report }: ElasticReport): string {
  return [
    `${seeds} jobs in four tabs. In each job, one tab was killed and another one joined.`,
    `${report.samplesSkipped} samples were skipped and ${report.samplesRepeated} repeated; the weights of ${report.hashMismatches} jobs differ.`,
    `At most ${report.stepsRepeated} steps of a job were repeated. Training continued ${recoveryMs.median} ms after a kill (median), at most ${recoveryMs.max} ms.`,
  ].join('\n');
}
