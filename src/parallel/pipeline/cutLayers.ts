/** Cuts a chain of layers into the stages of a pipeline. */
import { UsageError } from '../../util/errors.ts';

export interface LayerCost {
  name: string;
  /** Time of a forward and a backward pass, in any unit. */
  cost: number;
  /** Memory of the layer in a tab, in bytes. */
  bytes: number;
}

export interface CutLayersOptions {
  /**
   * Whether rank 0 has both the first and the last stage (see `schedules.ts`). If so, the first
   * stage has only the first layer.
   */
  ring?: boolean;
  /** Cost of the loss, which the last stage computes. 0 by default. */
  lossCost?: number;
  /** The memory that a rank may use, in bytes; `null`: no limit. */
  maxBytes?: number | null;
}

interface Bounds {
  cost: number;
  bytes: number;
}

/**
 * Returns the number of layers of each stage, so that the slowest rank is as fast as possible.
 * Among equally fast cuts, it chooses the one whose fullest rank needs the least memory.
 *
 * A pipeline runs at the speed of its slowest rank. The cuts are exact, by dynamic programming
 * (the linear partition problem).
 *
 * @returns `ranks` positive numbers. In a ring it returns `ranks + 1` numbers; the last one may be
 *   0, because that stage also computes the loss.
 * @throws UsageError if there are more stages than layers, or if no cut fits in `maxBytes`.
 */
export function cutLayers(layers: readonly LayerCost[], ranks: number, options: CutLayersOptions = {}): number[] {
  const { maxBytes = null } = options;
  checkRanks(layers, ranks);
  const bounds = { cost: Infinity, bytes: maxBytes ?? Infinity };
  const fastest = bestCut(layers, ranks, options, bounds, 'cost');
  if (!fastest) throw unfit(layers, ranks, options);
  const cost = Math.max(...pipelineLoadOfRanks(layers, fastest, options).map((load) => load.cost));
  return bestCut(layers, ranks, options, { ...bounds, cost }, 'bytes') ?? fastest;
}

export function layersOfStage(stages: readonly number[], stage: number): number[] {
  const start = stages.slice(0, stage).reduce((total, count) => total + count, 0);
  return Array.from({ length: stages[stage]! }, (_, i) => start + i);
}

/** Returns cost and memory of each rank with this cut. */
export function pipelineLoadOfRanks(
  layers: readonly LayerCost[],
  stages: readonly number[],
  { ring = false, lossCost = 0 }: CutLayersOptions = {},
): Bounds[] {
  const ranks = ring ? stages.length - 1 : stages.length;
  const loads = Array.from({ length: ranks }, () => ({ cost: 0, bytes: 0 }));
  let at = 0;
  for (const [stage, count] of stages.entries()) {
    const load = loads[stage % ranks]!;
    for (const { cost, bytes } of layers.slice(at, at + count)) {
      load.cost += cost;
      load.bytes += bytes;
    }
    if (stage === stages.length - 1) load.cost += lossCost;
    at += count;
  }
  return loads;
}

/**
 * Among the cuts within `bounds`, returns the one whose largest `goal` is smallest; `null` if there
 * is no such cut.
 */
function bestCut(
  layers: readonly LayerCost[],
  ranks: number,
  options: CutLayersOptions,
  bounds: Bounds,
  goal: keyof Bounds,
): number[] | null {
  const isWithin = ({ cost, bytes }: Bounds): boolean => cost <= bounds.cost && bytes <= bounds.bytes;
  if (!options.ring) {
    const last = { cost: options.lossCost ?? 0, bytes: 0 };
    return partition(layers, ranks, last, isWithin, goal)?.stages ?? null;
  }
  let best: { stages: number[]; largest: number } | null = null;
  for (let last = 0; last < layers.length; last++) {
    const own = [layers[0]!, ...layers.slice(layers.length - last)];
    const load = { cost: sum(own, 'cost') + (options.lossCost ?? 0), bytes: sum(own, 'bytes') };
    const middle = layers.slice(1, layers.length - last);
    if (!isWithin(load) || middle.length < ranks - 1 || (ranks === 1 && middle.length > 0)) continue;
    if (best && load[goal] >= best.largest) continue;
    const rest = partition(middle, ranks - 1, { cost: 0, bytes: 0 }, isWithin, goal);
    if (!rest) continue;
    const largest = Math.max(load[goal], rest.largest);
    if (!best || largest < best.largest) best = { stages: [1, ...rest.stages, last], largest };
  }
  return best?.stages ?? null;
}

/** Divides layers into `parts` parts of at least one layer. `extra` is added to the last part. */
function partition(
  layers: readonly LayerCost[],
  parts: number,
  extra: Bounds,
  isWithin: (load: Bounds) => boolean,
  goal: keyof Bounds,
): { stages: number[]; largest: number } | null {
  const n = layers.length;
  if (parts === 0) return { stages: [], largest: 0 };
  const loadBetween = (start: number, end: number): Bounds => {
    const own = layers.slice(start, end);
    const isLast = end === n;
    return {
      cost: sum(own, 'cost') + (isLast ? extra.cost : 0),
      bytes: sum(own, 'bytes') + (isLast ? extra.bytes : 0),
    };
  };
  /** Best division of the first `end` layers, by `end`; `null` if none fits. */
  let best = Array.from({ length: n + 1 }, (_, end) => {
    const load = loadBetween(0, end);
    return end > 0 && isWithin(load) ? { stages: [end], largest: load[goal] } : null;
  });
  for (let part = 1; part < parts; part++) {
    best = best.map((_, end) => {
      let found: { stages: number[]; largest: number } | null = null;
      for (let start = part; start < end; start++) {
        const before = best[start];
        const load = loadBetween(start, end);
        if (!before || !isWithin(load)) continue;
        const largest = Math.max(before.largest, load[goal]);
        if (!found || largest < found.largest) found = { stages: [...before.stages, end - start], largest };
      }
      return found;
    });
  }
  return best[n]!;
}

function checkRanks(layers: readonly LayerCost[], ranks: number): void {
  if (Number.isSafeInteger(ranks) && ranks >= 1 && ranks <= layers.length) return;
  throw new UsageError(
    `A model of ${layers.length} layers cannot be cut into ${ranks} stages. Use 1 to ${layers.length} stages. The layers are ` +
      `${layers.map(({ name }) => name).join(', ')}.`,
  );
}

function unfit(layers: readonly LayerCost[], ranks: number, options: CutLayersOptions): UsageError {
  const anywhere = { cost: Infinity, bytes: Infinity };
  const stages = bestCut(layers, ranks, options, anywhere, 'bytes')!;
  const loads = pipelineLoadOfRanks(layers, stages, options);
  const rank = loads.reduce((fullest, load, i) => (load.bytes > loads[fullest]!.bytes ? i : fullest), 0);
  const start = stages.slice(0, rank).reduce((total, count) => total + count, 0);
  const names = layers.slice(start, start + stages[rank]!).map(({ name }) => name);
  const largest = layers.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  const bounds = { cost: Infinity, bytes: options.maxBytes! };
  let enough: number | null = null;
  for (let more = ranks + 1; more <= layers.length && enough === null; more++) {
    if (bestCut(layers, more, options, bounds, 'bytes')) enough = more;
  }
  const advice =
    enough === null
      ? `The layer "${largest.name}" alone needs ${megabytes(largest.bytes)}, so more stages do not help: use a smaller model or tabs with more memory`
      : `It fits in ${enough} stages`;
  return new UsageError(
    `The model does not fit in ${ranks} stages: rank ${rank} with the layers ${names.join(', ')} needs ` +
      `${megabytes(loads[rank]!.bytes)} and may use ${megabytes(options.maxBytes!)}. ${advice}.`,
    { rank },
  );
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

function sum(layers: readonly LayerCost[], key: keyof Bounds): number {
  return layers.reduce((total, layer) => total + layer[key], 0);
}
