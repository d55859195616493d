/**
 * `bench distance`: measures links, all-reduces and training in tabs that are as far apart as over
 * the internet. Tabs connect through a TURN server and lines with a limited rate, delay and loss
 * (tools/network).
 */
import { Option } from 'commander';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { LINES, type LineName } from '../tools/network/lines.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, oneOf, option, tabsOption } from './command/options.ts';
import { farApart } from './distance/farApart.ts';
import { linksTable, linksText, measureLinks, type LinkDistanceRow } from './distance/links.ts';
import {
  DIGITS_STEPS,
  distanceTable,
  TEXT_STEPS,
  trainFarApart,
  type DistanceRow,
  type TrainingOptions,
} from './distance/training.ts';

interface DistanceOptions extends TrainingOptions {
  json?: true;
}

interface DistanceResult extends TrainingOptions {
  links: LinkDistanceRow[];
  rows: DistanceRow[];
}

/** @throws (rejects) PeergradError if coturn is not installed, or a tab fails. */
async function benchDistance({ json, ...options }: DistanceOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await farApart(async (network): Promise<DistanceResult> => {
    const links = await measureLinks(network, io);
    return { ...options, links, rows: await trainFarApart(network, options, io) };
  });
  io.out(json === undefined ? tablesOf(result) : JSON.stringify(result));
}

function tablesOf({ links, rows }: DistanceResult): string {
  return `${linksTable(links)}\n\n${distanceTable(rows)}`;
}

export function section({ tabs, seconds, links, rows }: DistanceResult): string {
  return `## Distance

\`npm run -s bench -- distance --data DIR --text FILE --seconds ${seconds}\`. Tabs connect through a TURN server and a line of their own (tools/network).

${linksText}

${linksTable(links)}

### Training

${tabs} tabs, each in its own browser, on WebAssembly. The line *home* has 15 Mbit/s up, 100 down, a round trip of 30 ms and 0.1 % loss;
*phone* 5, 20, 60 ms and 0.5 %; *continent* 50, 50, 80 ms and 0.05 %.
The goal is 90 % accuracy on mnist (mlp with 256 hidden units, batches of 32), or 2.2 nats per character with gpt tiny. *Seconds* are those
from the first step to the evaluation that reaches the goal. A run ends after ${seconds} seconds, or ${DIGITS_STEPS} steps
of mnist and ${TEXT_STEPS} of gpt.

${distanceTable(rows)}
`;
}

export const distance = defineBenchmark({
  name: 'distance',
  description:
    'measure links, all-reduces, and the seconds to a goal with each method, in tabs that are far apart; needs coturn',
  options: [
    tabsOption(4),
    option('--lines <name,..>', 'lines of the tabs', listOf(oneOf(Object.keys(LINES) as LineName[])), [
      'home',
      'phone',
    ] as LineName[]),
    new Option('--data <folder>', "folder with MNIST's IDX files, to train the classifier"),
    new Option('--text <file>', 'text file, to train the language model'),
    option('--seconds <n>', 'time limit of a run', wholeNumber(1), 120),
  ],
  run: benchDistance,
  section,
});
