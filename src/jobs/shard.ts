/**
 * Data of which every rank has its own, which no other sees: what ranks tell each other of it, so that all build one model and bring
 * numbers to one scale, and who does not fit.
 */
import type { JobSpec } from '../protocol/job.ts';
import type { ShardFacts } from '../protocol/shardFacts.ts';
import { majority } from '../util/majority.ts';
import type { Dataset } from './dataset.ts';
import { checkImages, imagesMisfit, joinImages, keyOfImages } from './imagesFacts.ts';
import { checkTable, joinTables, keyOfTable, tableMisfit } from './tableFacts.ts';

/** Files of which only this tab has these. */
export interface Shard {
  readonly facts: ShardFacts;
  /** The samples to train and to test on, by what all have agreed on. */
  load(agreed: ShardFacts): Promise<{ train: Dataset; test: Dataset }>;
}

export interface Agreement {
  /** Of all that fit. */
  facts: ShardFacts;
  /** Ranks whose data do not, and why, as in "its columns are a, b". */
  odd: { rank: number; why: string }[];
}

/**
 * What all ranks come to, each from the same.
 *
 * @param agreed what the run that is on goes by already: classes are those that it began with.
 * @throws DataError where nothing can be learned from all of it together.
 */
export function agreeOn(
  all: readonly ShardFacts[],
  agreed: ShardFacts | null,
  job: Pick<JobSpec, 'task' | 'loss' | 'metrics'>,
): Agreement {
  const facts = agreed ?? joined(all);
  if (agreed === null) check(facts, job);
  const odd = all.flatMap((own, rank) => {
    const why = misfit(facts, own, job);
    return why === null ? [] : [{ rank, why }];
  });
  return { facts, odd };
}

/** Of those that have in common what most have. */
function joined(all: readonly ShardFacts[]): ShardFacts {
  const common = majority(all.map(keyOf));
  const alike = all.filter((one) => keyOf(one) === common);
  const tables = alike.filter((one) => one.kind === 'table');
  return tables.length > 0 ? joinTables(tables) : joinImages(alike.filter((one) => one.kind === 'images'));
}

function keyOf(facts: ShardFacts): string {
  return facts.kind === 'table' ? keyOfTable(facts) : keyOfImages(facts);
}

const ALL = { table: 'The tables of all tabs', images: 'The images of all tabs' };

function check(facts: ShardFacts, job: Pick<JobSpec, 'task' | 'loss' | 'metrics'>): void {
  if (facts.kind === 'table') checkTable(ALL.table, facts, job);
  else checkImages(ALL.images, facts);
}

function misfit(agreed: ShardFacts, own: ShardFacts, job: Pick<JobSpec, 'task' | 'loss' | 'metrics'>): string | null {
  if (agreed.kind === 'table' && own.kind === 'table') return tableMisfit(agreed, own, job);
  if (agreed.kind === 'images' && own.kind === 'images') return imagesMisfit(agreed, own);
  return 'it is of another job';
}
