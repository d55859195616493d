/**
 * Facts of tables: which columns are inputs, and how they are scaled. They are computed for the
 * table of one tab and merged over the tables of all tabs. Other tabs receive only these facts.
 */
import { fieldProblemSentence } from '../../spec/fields.ts';
import type { JobSpec } from '../../spec/job.ts';
import { lossOrMetricProblem, type TaskName } from '../../spec/measures.ts';
import type { DecimalMark } from '../../spec/preview.ts';
import type { ColumnFacts, TableFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { mostFrequentVote } from '../../util/mostFrequentVote.ts';
import { nameRanks } from '../../util/text.ts';
import { isShareUnit, keyOfUnit, nameOfUnit } from '../../formats/units.ts';
import { MAX_CATEGORIES } from './columns.ts';
import { checkNoConfusableClasses, confusableNameOf } from '../../formats/classNames.ts';
import { standardDeviation, mergeMoments } from '../../formats/moments.ts';

/**
 * A numeric target may be a class if it has at most this number of distinct values. With more, it
 * is an amount.
 */
const MAX_NUMBERED_CLASSES = 10;
/**
 * Minimum mean number of rows per value of a numeric target, for its values to be classes. `small`:
 * all values are small integers, as numbers of classes usually are. `other`: all other targets,
 * because numbers that occur once or twice are amounts, such as the prices of ten houses.
 */
const LEAST_ROWS_OF_CLASS = { small: 2, other: 5 };
const SMALL = /^-?\d$|^1\d$/;
/** Maximum number of inputs of a sample. With this number, a first layer of 64 units has 4 MB. */
const MAX_INPUTS = 16_384;

function inputsOf({ kind, values, isMissing }: ColumnFacts): number {
  if (kind === 'number') return isMissing ? 2 : 1;
  return kind === 'category' ? values!.length : 0;
}

export function targetColumnOf({ columns, target }: TableFacts): ColumnFacts {
  return columns.find(({ name }) => name === target)!;
}

/**
 * Returns the task of the job. If the job does not state a task, the target determines it. Returns
 * `null` if the task is unknown.
 *
 * @param classes the values of the target, each with its number of rows; `null` if there are too
 *   many.
 */
export function tableTaskForTarget(
  kind: ColumnFacts['kind'],
  classes: ReadonlyMap<string, number> | null,
  { task }: Pick<JobSpec, 'task'>,
): TaskName | null {
  if (task !== null) return task;
  if (kind === 'number') {
    if (classes === null || classes.size > MAX_NUMBERED_CLASSES) return 'regression';
    const isSmall = [...classes.keys()].every((name) => SMALL.test(name));
    if (isSmall && classes.size <= 2) return 'classification';
    const least = LEAST_ROWS_OF_CLASS[isSmall ? 'small' : 'other'];
    const rows = [...classes.values()].reduce((a, b) => a + b, 0);
    return rows >= least * classes.size ? 'classification' : 'regression';
  }
  return kind === 'category' ? 'classification' : null;
}

/**
 * Checks the facts of a table, or the merged facts of all tables.
 *
 * @param name the table's name in errors.
 * @param isShard whether the table is the shard of one tab. If so, requirements that apply to all
 *   tables together are not checked.
 * @throws DataError if no model can be trained on the table.
 */
export function checkTableFacts(
  name: string,
  facts: TableFacts,
  job: Pick<JobSpec, 'loss' | 'metrics'>,
  isShard = false,
): void {
  const target = targetColumnOf(facts);
  const { task } = facts;
  const column = `column ${JSON.stringify(target.name)}`;
  const fail = (what: string): never => {
    throw new DataError(`${name}${what}`);
  };
  if (task === 'regression' && target.kind !== 'number') {
    return fail(
      `: ${column} does not contain numbers, but a regression predicts a number. Choose the task classification, or choose another column.`,
    );
  }
  if (target.kind === 'empty') return fail(`: ${column} is empty. Choose another column to predict.`);
  if (task !== 'regression' && target.values === null) {
    return fail(
      `: ${column} has more than ${MAX_CATEGORIES} different values. These are too many classes. Choose another column to predict.`,
    );
  }
  if (!isShard && target.values?.length === 1) {
    return fail(`: ${column} has the same value in every row. Choose another column to predict.`);
  }
  if (task !== 'regression' && target.kind === 'category')
    checkNoConfusableClasses(`${name}, ${column}`, target.values!);
  const unfit = lossOrMetricProblem(job, task!);
  if (unfit !== null) return fail(`, ${column}: the job has ${fieldProblemSentence(unfit)}.`);
  if (!isShard && task === 'regression' && target.moments.count > 0 && standardDeviation(target.moments) === 0) {
    return fail(`: ${column} has the same value in every training row. Choose another column to predict.`);
  }
  const inputs = facts.columns.reduce((sum, one) => sum + (one === target ? 0 : inputsOf(one)), 0);
  if (!isShard && inputs === 0) {
    return fail(`, line 1: no column is left to predict ${column} from. Add columns of numbers or of categories.`);
  }
  if (inputs > MAX_INPUTS) {
    return fail(
      `, line 1: the columns become ${inputs} inputs, but at most ${MAX_INPUTS} are supported. Remove columns.`,
    );
  }
}

/** Returns a key. The facts of tables with equal keys can be merged. */
export function keyOfTableFacts({ columns, target }: TableFacts): string {
  return JSON.stringify([target, columns.map(({ name }) => name)]);
}

/**
 * Merges the facts of tables with the same {@link keyOfTableFacts}. The result does not depend on
 * the order of the tables. In the result, a column has numbers if it has numbers in at least half
 * of the tables in which it is not empty; if not, it has words. {@link whyTableDiffersFromFacts}
 * rejects tables that have words instead of numbers in a column, or numbers instead of words.
 */
export function mergeTableFacts(tables: readonly TableFacts[]): TableFacts {
  const { target, columns, task } = tables[0]!;
  return {
    kind: 'table',
    target,
    task,
    columns: columns.map((_, i) => joinColumns(tables.map((one) => one.columns[i]!))),
  };
}

function joinColumns(columns: readonly ColumnFacts[]): ColumnFacts {
  const all = columns.filter(({ kind }) => kind !== 'empty');
  const isNumber = 2 * all.filter(isOfNumbers).length >= all.length;
  const alike = all.filter((one) => isOfNumbers(one) === isNumber);
  const isTold = alike.every(({ values }) => values !== null);
  const values = [...new Set(alike.flatMap((one) => one.values ?? []))].sort();
  const isFew = isTold && values.length <= MAX_CATEGORIES;
  const words = isFew ? 'category' : 'text';
  return {
    name: columns[0]!.name,
    kind: alike.length === 0 ? 'empty' : isNumber ? 'number' : words,
    mark: markOfMost(alike),
    ...unitOfMost(alike),
    values: isFew ? values : null,
    isMissing: columns.some(({ isMissing }) => isMissing),
    moments: mergeMoments(alike.map(({ moments }) => moments)),
  };
}

/** Returns the decimal mark of most columns, or the point if both marks are equally frequent. */
function markOfMost(columns: readonly ColumnFacts[]): DecimalMark | null {
  const points = columns.filter(({ mark }) => mark === 'point').length;
  const commas = columns.filter(({ mark }) => mark === 'comma').length;
  if (commas > points) return 'comma';
  return points === 0 ? null : 'point';
}

/** Returns the unit of most columns, or an empty object if no column has a unit. */
function unitOfMost(columns: readonly ColumnFacts[]): Pick<ColumnFacts, 'unit'> {
  const units = columns.flatMap(({ unit }) => unit ?? []).sort();
  const usual = mostFrequentVote(units.map(keyOfUnit));
  const unit = units.find((one) => keyOfUnit(one) === usual);
  return unit === undefined ? {} : { unit };
}

/**
 * Returns the reason why units differ, or `null` if they match. Numbers without a unit match
 * numbers with any unit except a share, such as per cent.
 */
function whyUnitsDoNotFit(unit = '', theirs = ''): string | null {
  if (keyOfUnit(unit) === keyOfUnit(theirs)) return null;
  if ((unit === '' || theirs === '') && !isShareUnit(`${unit}${theirs}`)) return null;
  return `has ${nameOfUnit(unit)}, but for the other ranks it has ${nameOfUnit(theirs)}`;
}

/**
 * Returns the reason why a table does not match the facts that ranks agreed on, or `null` if the
 * table matches.
 */
export function whyTableDiffersFromFacts(agreed: TableFacts, own: TableFacts): string | null {
  if (keyOfTableFacts(agreed) !== keyOfTableFacts(own)) {
    return `its columns are ${columnNamesText(own, agreed)}, but those of the other ranks are ${columnNamesText(agreed, own)}`;
  }
  for (const [i, column] of own.columns.entries()) {
    const theirs = agreed.columns[i]!;
    const name = `its column ${JSON.stringify(column.name)}`;
    if ([column, theirs].every(({ kind }) => kind !== 'empty') && isOfNumbers(column) !== isOfNumbers(theirs)) {
      const [here, there] = isOfNumbers(column) ? ['numbers', 'words'] : ['words', 'numbers'];
      return `${name} contains ${here}, but for the other ranks it contains ${there}`;
    }
    if (column.mark !== null && theirs.mark !== null && column.mark !== theirs.mark) {
      return `${name} has decimal ${column.mark}s, but for the other ranks it has decimal ${theirs.mark}s`;
    }
    const units = [column, theirs].every(isOfNumbers) ? whyUnitsDoNotFit(column.unit, theirs.unit) : null;
    if (units !== null) return `${name} ${units}`;
    if (column.name !== own.target || agreed.task !== 'classification') continue;
    if (column.values === null) return `${name} has too many different values to be a class`;
    const stranger = column.values.find((value) => !theirs.values!.includes(value));
    if (stranger === undefined) continue;
    const twin = confusableNameOf(stranger, theirs.values!);
    return `${name} has the class ${JSON.stringify(stranger)}, but the run ${twin === null ? 'does not have this class' : `has the class ${JSON.stringify(twin)}`}`;
  }
  return null;
}

/**
 * Describes the conflict if the tables suggest different tasks. Returns `null` if they all suggest
 * the same task.
 */
export function describeTaskConflict(tables: readonly TableFacts[]): string | null {
  const ranksOf = (task: TaskName): number[] => tables.flatMap((one, rank) => (one.task === task ? [rank] : []));
  const [classes, amounts] = [ranksOf('classification'), ranksOf('regression')];
  if (classes.length === 0 || amounts.length === 0) return null;
  const column = `column ${JSON.stringify(tables[0]!.target)}`;
  const difference = `${column} looks like a class on ${nameRanks(classes)}, but like an amount on ${nameRanks(amounts)}`;
  return `${difference}. Set the job's task to classification or regression.`;
}

function isOfNumbers({ kind }: ColumnFacts): boolean {
  return kind === 'number';
}

/** Maximum number of names that a message lists. */
const MOST_NAMED = 8;

/**
 * Returns the names of a table's columns. A long list begins at the first name that differs from
 * `other`.
 */
export function columnNamesText({ columns }: TableFacts, other: TableFacts): string {
  const differs = columns.findIndex(({ name }, i) => name !== other.columns[i]?.name);
  const last = Math.max(0, columns.length - MOST_NAMED);
  const first = Math.min(differs === -1 ? last : differs, last);
  const names = columns.slice(first, first + MOST_NAMED).map(({ name }) => name);
  const before = first === 0 ? '' : `${first} equal ones, then `;
  return `${before}${names.join(', ')}${columns.length > first + MOST_NAMED ? ' and others' : ''}`;
}
