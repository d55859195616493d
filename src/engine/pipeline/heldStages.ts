/**
 * The layers that this rank has, through all worlds of a run: its stage, and the mirror of its left
 * neighbour's stage. When ranks join or leave, the ranks of the new world agree on the latest
 * state, and layers move to their new ranks.
 *
 * A rank applies a step only when all ranks have the step's gradients, and all mirrors have the
 * gradients of their stage. So if one rank has applied a step, every other rank of that world can
 * apply it, too.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { layersOfStage } from '../../parallel/pipeline/cutLayers.ts';
import { moveLayers, planLayerMoves, type LayerMove } from '../../parallel/pipeline/layerMoves.ts';
import { withPieceProgress, type LayerStateSource, type ReadStatePiece } from '../../parallel/pipeline/layerState.ts';
import { stagesOfRank } from '../../parallel/pipeline/schedules.ts';
import type { StageMirror } from '../../parallel/pipeline/stageMirror.ts';
import type { StepCommit } from '../../parallel/pipeline/stageParameters.ts';
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import { ranksWithLatestState } from '../../parallel/recovery/stateElection.ts';
import { allGatherHashes } from '../../parallel/recovery/recover.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModelStage } from './pipelineModelStage.ts';

/** The layers of this rank in one world. */
interface Held {
  /** `null` on a rank without a stage. */
  stage: PipelineModelStage | null;
  /** `null` if other ranks have the same stage, or if the pipeline has one rank. */
  mirror: StageMirror | null;
}

/** A rank's report about its state, for the other ranks of a world. */
interface EnteringRank {
  /** Whether the rank has no layers. */
  isFresh: boolean;
  step: number;
  appliedIn: number;
  previousAppliedIn: number;
  verdicts: TrainingProgress['verdicts'];
  layers: number[];
  /**
   * The generation in which the gradients of the next step became complete; `null` while they are
   * incomplete.
   */
  pendingIn: number | null;
  isDue: boolean;
}

/** The state that ranks have agreed on. */
export interface AgreedStageState {
  /** For each rank: the layers of this state that it has. */
  held: readonly (readonly number[])[];
  /** Settings and counters of the optimizers; `null` if no rank has a state. */
  scalars: Float64Array<ArrayBuffer> | null;
  /** The ranks before the agreement. */
  ranks: readonly { isFresh: boolean; step: number; note: { isDue: boolean } }[];
}

export class HeldStages {
  /**
   * The layers of the current world. If ranks were lost while layers moved, also the layers of the
   * previous world, because other ranks may not have received them.
   */
  #held: Held[] = [];
  #pendingIn: number | null = null;
  /**
   * The learning rate and the scale with which the latest step of this rank's state was applied.
   */
  #commit: StepCommit | null = null;

  /** Whether this rank has no layers. */
  get isFresh(): boolean {
    return this.#layers.length === 0;
  }

  get stage(): PipelineModelStage | null {
    return this.#held.at(-1)?.stage ?? null;
  }

  get mirror(): StageMirror | null {
    return this.#held.at(-1)?.mirror ?? null;
  }

  /**
   * Sends the gradients of this rank's stage to the rank that mirrors the stage, and receives the
   * gradients of the stage that this rank mirrors. From then on, the step may be applied. Every
   * rank must call it.
   */
  async exchangeGradients({ generation }: ProcessGroup): Promise<void> {
    const { stage, mirror } = this;
    if (stage) await mirror?.exchangeGradients(stage.stage);
    this.#pendingIn = generation;
  }

  /** Applies a step. It does not communicate, so the end of a world does not interrupt it. */
  async apply(commit: StepCommit): Promise<void> {
    await this.stage?.apply(commit);
    this.mirror?.apply(commit);
    this.#pendingIn = null;
    this.#commit = commit;
  }

  /**
   * Agrees with the ranks of a world on the state with the most steps. A rank that is one step
   * behind applies the missing step. Other ranks without this state drop their layers. Every rank
   * must call it.
   *
   * @param progress this rank's progress; it is overwritten with that of the agreed state.
   * @param isDue whether this rank still has to make the checks after its latest step.
   */
  async agree(group: ProcessGroup, progress: TrainingProgress, isDue: boolean): Promise<AgreedStageState> {
    const { step, appliedIn, previousAppliedIn, verdicts } = progress;
    const entering: EnteringRank = {
      isFresh: this.isFresh,
      step,
      appliedIn,
      previousAppliedIn,
      verdicts,
      layers: this.#layers,
      pendingIn: this.#pendingIn,
      isDue,
    };
    const ranks = await group.allGatherObject(entering);
    const noted = ranks.map((rank) => ({ ...rank, note: { isDue: rank.isDue } }));
    if (ranks.every(({ isFresh }) => isFresh)) return { held: ranks.map(() => []), scalars: null, ranks: noted };

    const latest = ranksWithLatestState(ranks.map((rank) => (rank.isFresh ? null : rank)));
    const [source] = latest as [number];
    const elected = ranks[source]!;
    const isLate = (rank: EnteringRank): boolean =>
      !rank.isFresh &&
      rank.step === elected.step - 1 &&
      rank.appliedIn === elected.previousAppliedIn &&
      rank.pendingIn === elected.appliedIn;
    const theirs = await group.broadcastObject(
      group.rank === source ? { progress, commit: this.#commit } : undefined,
      group.ranks[source]!,
    );
    if (isLate(ranks[group.rank]!)) await this.apply(theirs.commit!);
    else if (!latest.includes(group.rank)) this.dispose();
    else this.#rollBack();
    Object.assign(progress, theirs.progress);
    // In a later world, this rank may have to send the commit to a late rank, even if this rank has
    // not applied the step.
    this.#commit = theirs.commit;
    const held = ranks.map((rank, i) => (latest.includes(i) || isLate(rank) ? rank.layers : []));
    const own = this.#held.map(scalarsOf).find((each) => each !== null);
    const all = await group.allGatherObject(own ? [...own] : null);
    const scalars = all.find((each) => each !== null);
    return { held, scalars: scalars ? Float64Array.from(scalars) : null, ranks: noted };
  }

  /**
   * Receives the layers of a stage and of its mirror. The former layers are dropped once all ranks
   * have received theirs. Every rank must call it.
   *
   * @param stage this rank's new stage; it belongs to this object from now on.
   * @param options.initialize sets the weights of a new model, and returns whether they differ from
   *   the initial values of its layers.
   * @param options.createMirror creates this rank's mirror. `isInitial`: the mirrored stage has its
   *   initial values. `null` if the world has no mirrors.
   * @param options.onprogress called when a part of a layer has arrived.
   * @returns the hash of this rank's replica; see {@link hash}.
   */
  async receive(
    group: ProcessGroup,
    grid: PipelineGrid,
    stage: PipelineModelStage | null,
    { scalars }: AgreedStageState,
    {
      moves,
      initialize,
      createMirror,
      onprogress,
    }: {
      moves: readonly LayerMove[];
      initialize: () => Promise<boolean>;
      createMirror: ((stage: PipelineModelStage, isInitial: boolean) => Promise<StageMirror>) | null;
      onprogress: () => void;
    },
  ): Promise<string> {
    const next: Held = { stage, mirror: null };
    try {
      const sourceOf = (layer: number): LayerStateSource => this.#sources.find(({ layers }) => layers.includes(layer))!;
      const load = (layer: number, read: ReadStatePiece): Promise<void> =>
        stage!.stage.load(layer, withPieceProgress(read, onprogress), scalars!);
      const isInitial = scalars === null && !(await initialize());
      if (scalars !== null) await moveLayers(group, moves, sourceOf, load);
      if (stage && createMirror) next.mirror = await createMirror(stage, isInitial);
    } catch (error) {
      free(next);
      throw error;
    }
    this.#held.push(next);
    const hash = await this.hash(group, grid);
    for (const former of this.#held.splice(0, this.#held.length - 1)) free(former);
    return hash;
  }

  /**
   * Returns the hash of this rank's replica, computed from the states of all its stages. If this
   * rank's mirror differs from the mirrored stage, the hash differs, too. Every rank must call it.
   */
  async hash(group: ProcessGroup, grid: PipelineGrid): Promise<string> {
    const { stage, mirror } = this;
    const hashes = await allGatherHashes(group, (await stage?.stage.hash()) ?? hashOfArrays([]));
    const own = grid.ranksOf(grid.replica ?? 0).map((rank) => hashes[rank]!);
    const mirrored = own.at((grid.stage ?? 0) - 1);
    const isRight = mirror === null || mirror.hash() === mirrored;
    return hashOfArrays([new TextEncoder().encode([...own, ...(isRight ? [] : ['mirror'])].join())]);
  }

  /** Drops all layers. */
  dispose(): void {
    for (const held of this.#held.splice(0)) free(held);
    this.#pendingIn = null;
  }

  get #sources(): LayerStateSource[] {
    return this.#held.flatMap(({ stage, mirror }) => [...(stage ? [stage.stage] : []), ...(mirror ? [mirror] : [])]);
  }

  get #layers(): number[] {
    return [...new Set(this.#sources.flatMap(({ layers }) => layers))];
  }

  /** Drops what belongs to a step that no rank has applied. */
  #rollBack(): void {
    this.stage?.stage.rollBack();
    this.#pendingIn = null;
  }
}

/**
 * Returns how layers move from ranks that have them to the stages of a cut.
 *
 * @param cut number of layers of each stage.
 */
export function layerMovesToCut(
  { held }: AgreedStageState,
  grid: PipelineGrid,
  cut: readonly number[],
): ReturnType<typeof planLayerMoves> {
  const wanted = held.map((_, rank) => {
    const stage = grid.stageOf(rank);
    if (stage === null) return [];
    return stagesOfRank({ ranks: grid.stages, stages: cut.length }, stage).flatMap((own) => layersOfStage(cut, own));
  });
  return planLayerMoves(held, wanted);
}

function scalarsOf({ stage, mirror }: Held): Float64Array<ArrayBuffer> | null {
  return stage?.stage.parameters.scalars ?? mirror?.scalars ?? null;
}

function free({ stage, mirror }: Held): void {
  stage?.dispose();
  mirror?.dispose();
}
