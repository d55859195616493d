/** Texts for pipelines: the picture, the plan, and the memory of tabs. */
import type { PassKind, StagePass } from '../../../parallel/pipeline/schedules.ts';
import { listInWords } from '../../../util/text.ts';
import { plural } from '../format.ts';

const kinds: Record<PassKind, string> = { forward: 'forward pass', backward: 'backward pass' };
const schedules = { '1f1b': '1F1B', gpipe: 'GPipe' };

export const pipelineTexts = {
  title: 'The pipeline',
  kinds,
  schedules,
  sentences: (sentences: readonly string[]) => sentences.join(' '),
  picture: (ranks: number, replicas: number, microBatches: number, schedule: string, ring: boolean, names: string) =>
    `A pipeline of ${plural(ranks, 'rank')}, ${plural(microBatches, 'micro-batch', 'micro-batches')}, schedule ${schedule}. ` +
    (ring ? 'The first rank has the first and the last stage. ' : '') +
    (replicas > 1 ? `${replicas} replicas do the same with other samples. ` : '') +
    `Ranks: ${names}.`,
  legend:
    'Each box is a micro-batch: a part of the samples of a step. It passes through all stages, and then its gradient returns. Until the gradient returns, ranks keep the activations of the micro-batch.',
  moreReplicas: (count: number) =>
    `${plural(count, 'more replica')} ${count === 1 ? 'does' : 'do'} the same at the same time, with other samples.`,
  stages: (stages: readonly number[]) => `${stages.length === 1 ? 'stage' : 'stages'} ${listInWords(stages)}`,
  layers: (count: number) => plural(count, 'layer'),
  keeps: (count: number) => `keeps ${count}`,
  noStage: 'no stage',
  noStageHere: 'This tab has no stage and waits, because the number of tabs is not a multiple of the number of stages.',

  // A frame of the plan.
  tick: (tick: number, ticks: number) => `Tick ${tick} of ${ticks}.`,
  youWait: 'You wait.',
  youCompute: ({ kind, microBatch, stage }: StagePass) =>
    `You compute the ${kinds[kind]} of micro-batch ${microBatch} in stage ${stage}.`,
  busy: (busy: number, ranks: number) =>
    busy === ranks
      ? 'All ranks compute.'
      : `${busy} of ${plural(ranks, 'rank')} ${busy === 1 ? 'computes' : 'compute'}.`,
  end: 'All gradients are known. Every rank updates its own layers.',
  done: (tick: number, ticks: number) => `${tick} of ${ticks} ticks`,
  fills: 'fills',
  runs: 'runs',
  drains: 'drains',
  planIdle: (share: string) => `By this plan, ranks wait for ${share} of the time.`,
  planned: 'Planned; this picture is not from a run.',

  // The plan as a grid.
  plan: 'Plan of a step',
  planLabel: (ranks: number, ticks: number) => `The plan: ${plural(ranks, 'rank')}, ${plural(ticks, 'tick')}`,
  planNote: (share: string, ring: boolean) =>
    `Each row is a rank, and each column is a tick. In an empty cell, the rank waits. If all passes take the same time, a rank waits ${share} of the time.` +
    (ring ? ' Passes of stage 0 are not shown: they only look up embeddings, and take almost no time.' : ''),
  passIn: (kind: PassKind, microBatch: number, stage: number, tick: number) =>
    `tick ${tick}: ${kinds[kind]} of micro-batch ${microBatch} in stage ${stage}`,

  // Measured.
  passOf: (kind: string, microBatch: number, stage: number) => `${kind} of micro-batch ${microBatch} in stage ${stage}`,
  idle: (step: number, measured: string, plan: string) =>
    `In step ${step}, ranks waited for ${measured} of the time. The plan predicts ${plan}; it assumes that all passes take the same time and sending takes none.`,
  idleLater: (plan: string) =>
    `By the plan, ranks wait for ${plan} of the time. The measured share is shown after the first exchange of statistics.`,
  timelineHelp:
    'Each box is a pass with the number of its micro-batch. In hatched parts, the rank waits for another rank. Point at a box for details. Drag to move; pinch or press + and − to zoom.',
  aligned: (error: string, you: number | null) =>
    `Clocks are aligned at the end of a common exchange. Lanes may be shifted by up to ${error}. ` +
    (you === null
      ? 'Each lane shows what its rank recorded.'
      : 'Your lane is exact. Other ranks report all passes of their latest steps.'),
  stage: 'stage',
  memory: 'memory',

  // The result.
  division: 'pipeline',
  divided: (stages: number, replicas: number, microBatches: number) =>
    `${plural(stages, 'stage')}${replicas > 1 ? ` × ${replicas} replicas` : ''}, ${plural(microBatches, 'micro-batch', 'micro-batches')}`,
  waited: 'ranks waited',
  planOf: (share: string) => `${share} by the plan`,
  memoryPerRank: 'memory of a tab',
  upTo: (least: string, most: string) => (least === most ? most : `${least} to ${most}`),
  layersByRank: 'Layers and memory of each rank',

  // The form.
  /** The default number of micro-batches. */
  automatic: '4 for each stage',
  recomputes: { keep: 'keep', recompute: 'recompute' },
  /** The memory that the model needs, and the memory of a tab. */
  whole: (needs: string) => `Each tab holds the whole model and needs about ${needs}.`,
  divides: (tabs: number, needs: string) =>
    `The model is divided over ${tabs} tabs. Each needs at most about ${needs}.`,
  dividesUnknown: (tabs: number) => `The model is divided over ${tabs} tabs. Each holds some of its layers.`,
  has: (bytes: string, isReported: boolean) =>
    !isReported
      ? `A tab is assumed to have ${bytes} of memory.`
      : `A tab is assumed to have ${bytes} of memory, an eighth of what this browser reports for the machine.`,
  tooLarge: 'That is too much.',
  offer: (tabs: number, needs: string) => `Divide over ${tabs} tabs (${needs} each)`,
  undo: 'Do not divide the model',
  noFit: (layer: string, needs: string) =>
    `More stages do not help: the layer ${layer} alone needs ${needs}. Choose a smaller model.`,
  noFitAtAll: 'No number of stages is enough. Choose a smaller model or a smaller batch.',
  buffer: (needs: string, most: string) =>
    `The largest matrix has ${needs}, but a buffer of this tab’s GPU has at most ${most}. A pipeline does not cut a matrix: choose a smaller vocabulary or width.`,

  // The lobby.
  needsTabs: (stages: number, tabs: number) =>
    `A pipeline of ${plural(stages, 'stage')} needs ${plural(stages, 'tab')}; ${plural(tabs, 'tab')} ${tabs === 1 ? 'is' : 'are'} ready.`,
  missing: (missing: number, stages: number) =>
    `${plural(missing, 'tab')} ${missing === 1 ? 'is' : 'are'} missing. A run that starts now has ${plural(stages, 'stage')}.`,
  fewerStages: (needs: string) => `Then a tab needs up to about ${needs}.`,
  cannotStart: (most: string) =>
    `A run cannot start, because a tab may hold at most ${most} of weights, gradients and averages.`,
  enough: (stages: number, replicas: number) =>
    replicas === 1
      ? `There are enough tabs for ${plural(stages, 'stage')}.`
      : `There are enough tabs for ${replicas} replicas of ${plural(stages, 'stage')}.`,
  leftOver: (tabs: number) => `${plural(tabs, 'tab')} will only wait, without a stage.`,
  plannedLayers: 'Planned stages',
  measuredLater: 'The layers are timed when the run starts, so the division into stages may change.',
  alone: 'With one tab there is no pipeline: this tab would hold the whole model.',
};
