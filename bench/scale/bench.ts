/**
 * `bench scale`: what an all-reduce costs as the world grows. The cost model is fitted from rings
 * of 2 to 8 tabs here and held against sizes that it was not fitted on; with what a machine costs
 * known, larger worlds on other lines are simulated.
 */
import type { Io } from '../../launcher/io.ts';
import { drawPanels } from '../plot.ts';
import { crossovers, simulateGrowth, WORLDS } from './growth.ts';
import { crossValidate, fitCosts, worstError } from './fit.ts';
import { measure } from './measure.ts';
import { panelsOf } from './panels.ts';
import { section, type ScaleResult } from './section.ts';

export interface ScaleOptions {
  ranks: number;
  picture?: string;
  json?: true;
}

const TABS = [2, 3, 4, 6, 8];
const SIZES = [1, 4, 16, 64, 256, 1024].map((kibibytes) => 1024 * kibibytes);
const FIFTH = 0.2;

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchScale({ ranks, picture, json }: ScaleOptions, io: Io): Promise<void> {
  const tell = (line: string): void => io.err(line);
  const { samples, combineMsPerByte } = await measure(TABS, SIZES, tell);
  const costs = fitCosts(samples, combineMsPerByte);
  const predictions = crossValidate(samples, combineMsPerByte);
  const within = predictions.filter(({ error }) => Math.abs(error) <= FIFTH);
  const growth = simulateGrowth(
    costs,
    WORLDS.filter((n) => n <= ranks),
    tell,
  );
  const result: ScaleResult = {
    ...{
      costs,
      samples,
      predictions,
      worstError: worstError(predictions),
      withinFifth: within.length / predictions.length,
    },
    ...{ growth, crossovers: crossovers(growth) },
  };
  if (picture !== undefined) await drawPanels(panelsOf(growth), picture);
  io.out(json === undefined ? section(result) : JSON.stringify(result));
}
