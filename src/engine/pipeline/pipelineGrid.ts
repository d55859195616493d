/** The places of a world's ranks: which replica and which stage each of them has. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { equalPartOfWindow } from '../../parallel/data/cursor.ts';
import { gpipe, oneForwardOneBackward, type PipelinePlan } from '../../parallel/pipeline/schedules.ts';
import { groupsAlongDimension } from '../../parallel/groups/deviceMesh.ts';
import type { GroupByteCounts } from '../training/telemetry/runStats.ts';
import type { JobSpec } from '../../spec/job.ts';
import { microBatchCountOf, pipelineWorldFor, type PipelineWorld } from '../../spec/pipeline.ts';

/** The fields of a job that determine the grid. */
type GridJob = Pick<JobSpec, 'stages' | 'microBatches' | 'batchSize' | 'pipelineSchedule'>;

/** The groups of a rank that has a stage. */
interface Groups {
  pipeline: ProcessGroup;
  data: ProcessGroup;
}

export class PipelineGrid {
  readonly stages: number;
  readonly replicas: number;
  readonly microBatches: number;
  /** Number of samples in a micro-batch. */
  readonly rows: number;
  /** `null` on a rank without a stage. */
  readonly groups: Groups | null;
  readonly plan: PipelinePlan;
  readonly #job: GridJob;

  private constructor(job: GridJob, { stages, replicas }: PipelineWorld, ring: boolean, groups: Groups | null) {
    this.stages = stages;
    this.replicas = replicas;
    this.microBatches = microBatchCountOf(job, stages);
    this.rows = Math.ceil((job.batchSize * stages) / this.microBatches);
    this.groups = groups;
    const schedule = job.pipelineSchedule === 'gpipe' ? gpipe : oneForwardOneBackward;
    this.plan = schedule(stages, this.microBatches, { ring });
    this.#job = job;
  }

  /**
   * Creates the groups of a world. Every rank must call it.
   *
   * @param model the layers, and whether the pipeline is a ring (see `schedules.ts`).
   */
  static async create(
    world: ProcessGroup,
    job: GridJob,
    { layers, ring }: { layers: readonly unknown[]; ring: boolean },
  ): Promise<PipelineGrid> {
    const shapeOfWorld = pipelineWorldFor(world.worldSize, job, layers.length);
    const shape = { data: shapeOfWorld.replicas, pipeline: shapeOfWorld.stages };
    const own: Partial<Groups> = {};
    for (const name of ['data', 'pipeline'] as const) {
      for (const ranks of groupsAlongDimension(shape, name)) {
        const group = await world.newGroup(ranks.map((rank) => world.ranks[rank]!));
        if (group.rank < 0) continue;
        own[name] = group;
        // If the world fails, its groups end, too, so that no rank waits in a group for a rank that
        // has already left the world.
        void world.failed.then((error) => group.abort(error));
      }
    }
    const { data, pipeline } = own;
    return new PipelineGrid(job, shapeOfWorld, ring, data && pipeline ? { data, pipeline } : null);
  }

  /** Index of this rank's replica; `null` on a rank without a stage. */
  get replica(): number | null {
    return this.groups?.data.rank ?? null;
  }

  /** This rank's place in its pipeline; `null` on a rank without a stage. */
  get stage(): number | null {
    return this.groups?.pipeline.rank ?? null;
  }

  /** Whether this rank has the first or the last layer, which use inputs and labels. */
  get usesSamples(): boolean {
    return this.stage === 0 || this.stage === this.stages - 1;
  }

  /** Number of samples in a step, over all replicas. */
  get stepSamples(): number {
    return this.#job.batchSize * this.stages * this.replicas;
  }

  /** Returns the stage of a rank; `null` if it has none. */
  stageOf(rank: number): number | null {
    return rank < this.stages * this.replicas ? rank % this.stages : null;
  }

  /** Ranks of a replica, in the order of their stages. */
  ranksOf(replica: number): number[] {
    return Array.from({ length: this.stages }, (_, stage) => replica * this.stages + stage);
  }

  /** Returns the samples of this rank's replica. */
  shareOf(indices: Uint32Array): Uint32Array {
    return equalPartOfWindow(indices, this.replica ?? 0, this.replicas);
  }

  /** Returns the bytes that this rank has sent and received in the world and in its groups. */
  bytesWith(world: ProcessGroup): GroupByteCounts {
    const all = [world, ...(this.groups ? [this.groups.pipeline, this.groups.data] : [])];
    return {
      get bytesSent() {
        return all.reduce((sum, group) => sum + group.bytesSent, 0);
      },
      get bytesReceived() {
        return all.reduce((sum, group) => sum + group.bytesReceived, 0);
      },
      get bytesSentBy() {
        const sums = new Map<string, number>();
        for (const { bytesSentBy } of all) {
          for (const [algorithm, bytes] of bytesSentBy) sums.set(algorithm, (sums.get(algorithm) ?? 0) + bytes);
        }
        return sums;
      },
    };
  }
}
