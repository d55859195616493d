/**
 * `bench strategies`: how many bytes each strategy moves in real tabs, against what it must move.
 */
import { TABS_PER_SOFTWARE_GPU } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { MAX_REPLICAS, type StrategyName } from '../../src/spec/job.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { strategiesTable } from './section.ts';
import { contradictions, rowOf, type StrategyRow } from './theory.ts';
import { trainInTabs } from '../train.ts';

export interface StrategiesOptions {
  tabs: readonly number[];
  strategies: readonly StrategyName[];
  json?: true;
}

/** Bytes are the same in every period: two show it. */
const SYNC_EVERY = 2;
const STEPS = 2 * SYNC_EVERY;
/** Samples per rank and step. They do not change bytes, and cost time where there is no GPU. */
const BATCH = 4;

/**
 * @throws (rejects) PeergradError where ring or parameter-server contradict theory, once all is
 *   printed.
 */
export async function benchStrategies({ tabs, strategies, json }: StrategiesOptions, io: Io): Promise<void> {
  const rows: StrategyRow[] = [];
  const skipped: { strategy: StrategyName; n: number; reason: string }[] = [];
  let adapter = '';
  for (const n of tabs) {
    for (const strategy of strategies) {
      const isOneTab = strategy === 'data-parallel';
      // Tabs are spread over several browsers where WebGPU is in software; replicas share one.
      const most = /swiftshader/i.test(adapter) ? TABS_PER_SOFTWARE_GPU : MAX_REPLICAS;
      if (isOneTab && n > most) {
        const reason = `a tab on ${adapter || 'this GPU'} has at most ${most} replicas`;
        skipped.push({ strategy, n, reason });
        io.err(`${strategy} with ${n} ranks is left out: ${reason}.`);
        continue;
      }
      io.err(`${strategy} with ${n} ranks:`);
      const job = { job: 'digits', strategy, syncEvery: SYNC_EVERY, steps: STEPS, batch: BATCH };
      const result = isOneTab ? await trainInTabs(1, { ...job, replicas: n }, io) : await trainInTabs(n, job, io);
      ({ adapter } = result);
      rows.push(rowOf(result, SYNC_EVERY));
    }
  }
  const result = { strategies: rows, skipped, adapter };
  io.out(json === undefined ? strategiesTable(result) : JSON.stringify(result));
  const wrong = contradictions(rows);
  if (wrong.length > 0) throw new PeergradError(`${wrong.join('; ')}: that is more than headers explain.`);
}
