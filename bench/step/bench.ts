/**
 * `bench step`: where a step's time goes. A world of one against a plain TensorFlow.js loop, and
 * several ranks, over capped lines if there are any, with buckets of several sizes.
 */
import type { Io } from '../../launcher/io.ts';
import { FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES } from '../../src/parallel/ddp/buckets.ts';
import { theoryBytes } from '../allreduce/figures.ts';
import { drawPanels } from '../plot.ts';
import { withHosts } from '../world/hosts.ts';
import { World, type Hosts } from '../world/world.ts';
import type { StepKind, StepModel } from './args.ts';
import { aloneTable, cutsTable } from './section.ts';
import { aloneOf, cutsOf, type Alone, type StepBenchResult, type Together } from './summary.ts';

export interface StepBenchOptions {
  tabs: number;
  hosts?: string;
  /**
   * Of the hosts' lines, megabits a second; by default one by which communication takes as long as
   * compute.
   */
  rate?: number;
  picture?: string;
  json?: true;
}

/** A rank's batch, with which a step takes a second at most without a GPU. */
const BATCHES: Record<StepModel, number> = { mlp: 32, cnn: 8, deep: 64 };
/** Enough for medians, in a minute or two without a GPU. */
const ALONE = { turns: 5, steps: 4 };
const TOGETHER = { turns: 3, steps: 2 };
/** To find out how long compute takes. */
const UNCAPPED = { turns: 2, steps: 2 };
/**
 * What a line carries beside the bytes of frames: headers of SCTP, DTLS, UDP and IP on packets of
 * 1191 bytes.
 */
const PACKET_OVERHEAD = 1.08;
const KIB = 1024;
/** No model here is larger. */
const WHOLE_BYTES = 1024 * KIB * KIB;
/** A layer's weights are 256 KiB. */
const CAPS = [256 * KIB, 512 * KIB, 1024 * KIB, null];

const DEFAULT_KIND = { firstBucketBytes: FIRST_BUCKET_BYTES, bucketCapBytes: BUCKET_CAP_BYTES };

export async function benchStep({ tabs, hosts, rate, picture, json }: StepBenchOptions, io: Io): Promise<void> {
  const together =
    hosts === undefined
      ? await measureTogether(tabs, null, io)
      : await withHosts({ tool: hosts, count: tabs }, (on, limit) =>
          measureTogether(tabs, { on, limit, ...(rate !== undefined && { rate }) }, io),
        );
  const { adapter, alone } = await measureAlone(io);
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

interface Lines {
  on: Hosts;
  limit: (rate: string) => Promise<void>;
  rate?: number;
}

async function measureTogether(tabs: number, lines: Lines | null, io: Io): Promise<Together> {
  const world = await World.open(tabs, { hosts: lines?.on ?? null });
  try {
    const model = 'deep';
    const batch = BATCHES[model];
    const line = lines && (await capped(world, model, lines));
    io.err(
      `${model}, ${tabs} tabs, ${line ? `lines of ${line.rateMbit} Mbit/s, ` : ''}${CAPS.length} sizes of buckets ...`,
    );
    const [taken] = await world.run('takeSteps', { ...TOGETHER, model, batch, kinds: CAPS.map(kindOf) });
    const cuts = cutsOf(CAPS, taken!, line?.ms ?? null);
    return { tabs, model, batch, parameters: taken!.parameters, line, cuts };
  } finally {
    await world.close();
  }
}

/**
 * Caps lines at a rate, by default one that carries a step's gradient in the time that computing it
 * takes.
 */
async function capped(world: World, model: StepModel, { limit, rate }: Lines): Promise<Together['line']> {
  const [taken] = await world.run('takeSteps', { ...UNCAPPED, model, batch: BATCHES[model], kinds: [kindOf(null)] });
  const { bucketBytes, ms } = cutsOf([null], taken!, null)[0]!;
  const kilobits = (theoryBytes(world.size, bucketBytes[0]!) * PACKET_OVERHEAD * 8) / 1000;
  const rateMbit = rate ?? Number((kilobits / ms.compute).toFixed(1));
  await limit(`${rateMbit}mbit`);
  return { rateMbit, ms: kilobits / rateMbit };
}

function kindOf(cap: number | null): StepKind {
  const bucketCapBytes = cap ?? WHOLE_BYTES;
  return { firstBucketBytes: cap === null ? WHOLE_BYTES : FIRST_BUCKET_BYTES, bucketCapBytes };
}

function curve(label: string, colour: string, values: number[]) {
  return { label, colour, width: 2.5, dash: [], values };
}

/** Step time, and its parts, over the size of buckets. */
async function draw({ together: { tabs, line, cuts } }: StepBenchResult, file: string): Promise<void> {
  const title = `${tabs} tabs, ${line ? `lines of ${line.rateMbit} Mbit/s` : 'uncapped'}`;
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
