/**
 * Declares the fields of objects that people write by hand, such as jobs. Finds the first problem
 * in such an object, and describes it.
 */
import * as v from 'valibot';
import { mostSimilarName } from '../util/nearest.ts';

/** The command-line option of a field. */
export interface CommandLineOption {
  /** The option's name in camelCase, if it differs from the field's name. */
  name?: string;
  /** The placeholder of the option's value in the help. */
  value: string;
  help: string;
  /** The values that people can choose from, if the schema also accepts other values. */
  choices?: readonly string[];
}

/** The declaration of a field. Command line, links, forms and files are all derived from it. */
export interface FieldDeclaration<
  Schema extends v.GenericSchema = v.GenericSchema,
  Option extends CommandLineOption | undefined = CommandLineOption | undefined,
> {
  readonly schema: Schema;
  readonly defaultValue: v.InferOutput<Schema>;
  readonly option: Option;
}

/**
 * Returns a schema for a list of distinct names, or `null`.
 *
 * @param empty the problem of an empty list.
 */
export function namesOrNullSchema<const Names extends readonly string[]>(names: Names, empty: string) {
  return v.nullable(
    v.pipe(
      v.array(v.picklist(names)),
      v.minLength(1, empty),
      v.checkItems((name, at, all) => all.indexOf(name) === at, 'this name occurs twice: remove one'),
    ),
  );
}

type FieldTable = Readonly<Record<string, FieldDeclaration>>;
type Schemas<Fields extends FieldTable> = { -readonly [Name in keyof Fields]: Fields[Name]['schema'] };

export function field<
  const Schema extends v.GenericSchema,
  const Option extends CommandLineOption | undefined = undefined,
>(schema: Schema, defaultValue: v.InferOutput<Schema>, option?: Option): FieldDeclaration<Schema, Option> {
  return { schema, defaultValue, option: option as Option };
}

export function schemasOfFields<const Fields extends FieldTable>(fields: Fields): Schemas<Fields> {
  const schemas = Object.entries(fields).map(([name, { schema }]) => [name, schema]);
  return Object.fromEntries(schemas) as Schemas<Fields>;
}

export function defaultValuesOf<const Fields extends FieldTable>(
  fields: Fields,
): v.InferOutput<v.StrictObjectSchema<Schemas<Fields>, undefined>> {
  const values = Object.entries(fields).map(([name, { defaultValue }]) => [name, defaultValue]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as never;
}

/**
 * How the value of a field is written in a command line or a link; `null` if the field has no such
 * notation.
 */
export type FieldNotation = 'choice' | 'text' | 'whole' | 'decimal' | 'switch' | 'list' | null;

export function fieldNotationOf(schema: v.GenericSchema): FieldNotation {
  if ('wrapped' in schema) return fieldNotationOf(schema.wrapped as v.GenericSchema);
  switch (schema.type) {
    case 'picklist':
      return picklistValuesOf(schema).every((one) => typeof one === 'string') ? 'choice' : 'whole';
    case 'number':
      return 'pipe' in schema && (schema.pipe as { type: string }[]).some(({ type }) => type === 'integer')
        ? 'whole'
        : 'decimal';
    case 'string':
      return 'text';
    case 'boolean':
      return 'switch';
    case 'array':
      return 'list';
    default:
      return null;
  }
}

/** Returns the values of a picklist, or an empty list for other schemas. */
export function picklistValuesOf(schema: v.GenericSchema): readonly unknown[] {
  if ('wrapped' in schema) return picklistValuesOf(schema.wrapped as v.GenericSchema);
  return 'options' in schema ? (schema.options as unknown[]) : [];
}

/**
 * A problem in an object. The path to it consists of field names and list indices, from the top.
 */
export interface FieldProblem {
  path: readonly (string | number)[];
  /** The message, without a full stop. */
  message: string;
}

/**
 * Returns a schema for objects with exactly these fields. The error for an unknown field suggests
 * the most similar name.
 */
export function strictFieldsSchema<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.strictObject(entries, ({ expected, input, message }) => {
    if (expected === 'never' && typeof input === 'string') return unknownField(input, Object.keys(entries));
    return input === undefined && expected !== null ? `the field ${expected} is missing` : message;
  });
}

/** Returns the first problem that a schema reported. */
export function firstSchemaProblem([issue]: readonly [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]): FieldProblem {
  return { path: issue.path?.map(({ key }) => key as string | number) ?? [], message: issue.message };
}

/** Returns a problem's path in valibot's format. */
export function valibotIssuePath(path: FieldProblem['path']): [v.IssuePathItem, ...v.IssuePathItem[]] {
  const items = path.map((key): v.IssuePathItem => ({
    type: 'unknown',
    origin: 'value',
    input: null,
    key,
    value: null,
  }));
  return items as [v.IssuePathItem, ...v.IssuePathItem[]];
}

/**
 * Returns a check for objects whose fields are valid one by one. It reports a problem between
 * several fields.
 */
export function crossFieldCheck<Fields>(findProblem: (fields: Fields) => FieldProblem | null) {
  return v.rawCheck<Fields>(({ dataset, addIssue }) => {
    const problem = dataset.typed && !dataset.issues ? findProblem(dataset.value) : null;
    if (problem !== null) addIssue({ message: problem.message, path: valibotIssuePath(problem.path) });
  });
}

/** Returns a problem as text, like `model.config.layers[3].units: what is wrong`. */
export function fieldProblemSentence({ path, message }: FieldProblem): string {
  const place = path.map((step, i) => (typeof step === 'number' ? `[${step}]` : i === 0 ? step : `.${step}`)).join('');
  return place === '' ? message : `${place}: ${message}`;
}

function unknownField(name: string, known: readonly string[]): string {
  const near = mostSimilarName(name, known);
  return near === null
    ? `there is no such field; the fields are ${known.join(', ')}`
    : `there is no such field; did you mean ${near}`;
}
