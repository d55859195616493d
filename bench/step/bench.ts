/**
 * `bench step`: where a step's time goes. A world of one against a plain TensorFlow.js loop, and several ranks, over capped lines
 * if there are any, with buckets of several sizes.
 */
import type { Io } from '../../launcher/io.ts';
import { FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES } from '../../src/parallel/buckets.ts';
import { drawPanels } from '../plot.ts';
import { withHosts } from '../world/hosts.ts';
import { World, type Hosts } from '../world/world.ts';
import type { StepKind, StepModel } from './args.ts';
import { aloneTable, cutsTable } from './section.ts';
import { aloneOf, cutsOf, type Alone, type StepBenchResult } from './summary.ts';

export interface StepBenchOptions {
  tabs: number;
  hosts?: string;
  rate: string;
  picture?: string;
  json?: true;
}

/** A rank's batch, with which a step takes a second at most without a GPU; that of `deep` leaves two thirds of it to the way back. */
const BATCHES: Record<StepModel, number> = { mlp: 32, cnn: 8, deep: 128 };
/** Enough for medians, in a minute or two without a GPU. */
const ALONE = { turns: 5, steps: 4 };
const TOGETHER = { turns: 3, steps: 2 };
const KIB = 1024;
/** No model here is larger. */
const WHOLE_BYTES = 1024 * KIB * KIB;
const CAPS = [64 * KIB, 256 * KIB, 1024 * KIB, null];

const DEFAULT_KIND = { firstBucketBytes: FIRST_BUCKET_BYTES, bucketCapBytes: BUCKET_CAP_BYTES };

export async function benchStep({ tabs, hosts, rate, picture, json }: StepBenchOptions, io: Io): Promise<void> {
  const measured =
    hosts === undefined
      ? await measureTogether(tabs, null, async () => {}, io)
      : await withHosts({ tool: hosts, count: tabs }, (on, limit) => measureTogether(tabs, on, () => limit(rate), io));
  const { adapter, alone } = await measureAlone(io);
  const together = { ...measured, tabs, rate: hosts === undefined ? null : rate };
  const result: StepBenchResult = { adapter, alone, together };
  if (picture !== undefined) await draw(result, picture);
  io.out(json === undefined ? `${aloneTable(result)}\n\n${cutsTable(result)}` : JSON.stringify(result));
}

async function measureAlone(io: Io): Promise<{ adapter: string; alone: Alone[] }> {
  const world = await World.open(1);
  try {
    let adapter = '';
    const alone: Alone[] = [];
    for (const model of ['mlp', 'cnn'] as const) {
      io.err(`${model}, a plain loop and a world of one ...`);
      const batch = BATCHES[model];
      const args = { ...ALONE, model, batch, kinds: ['plain', DEFAULT_KIND] satisfies StepKind[] };
      const [taken] = await world.run('takeSteps', args);
      adapter = taken!.adapter;
      alone.push(aloneOf(model, batch, taken!));
    }
    return { adapter, alone };
  } finally {
    await world.close();
  }
}

async function measureTogether(tabs: number, hosts: Hosts | null, limit: () => Promise<void>, io: Io) {
  const world = await World.open(tabs, { hosts });
  try {
    await limit();
    const model = 'deep';
    const batch = BATCHES[model];
    io.err(`${model}, ${tabs} tabs, ${CAPS.length} sizes of buckets ...`);
    const kinds = CAPS.map((cap): StepKind => {
      const bucketCapBytes = cap ?? WHOLE_BYTES;
      return { firstBucketBytes: cap === null ? WHOLE_BYTES : FIRST_BUCKET_BYTES, bucketCapBytes };
    });
    const [taken] = await world.run('takeSteps', { ...TOGETHER, model, batch, kinds });
    return { model, batch, parameters: taken!.parameters, cuts: cutsOf(CAPS, taken!) } as const;
  } finally {
    await world.close();
  }
}

function curve(label: string, colour: string, values: number[]) {
  return { label, colour, width: 2.5, dash: [], values };
}

/** Step time, and its parts, over the size of buckets. */
async function draw({ together: { tabs, rate, cuts } }: StepBenchResult, file: string): Promise<void> {
  const title = `${tabs} tabs, ${rate === null ? 'uncapped' : `lines of ${rate}`}`;
  const curves = [
    curve(
      'step',
      '#2563eb',
      cuts.map(({ ms }) => ms.total),
    ),
    curve(
      'communication',
      '#ea580c',
      cuts.map(({ ms }) => ms.communicate),
    ),
    curve(
      'exposed',
      '#dc2626',
      cuts.map(({ ms }) => ms.exposed),
    ),
  ];
  const names = cuts.map(({ capBytes }) => (capBytes === null ? 'whole' : `${capBytes / KIB} KiB`));
  await drawPanels([{ title, x: 'bucket cap', y: 'ms', names, curves }], file);
}
