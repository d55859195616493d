/**
 * Checks that files, folders, headings, npm scripts and command-line options exist if the documents
 * name them.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { BENCHMARKS } from '../bench/command/all.ts';
import { runBench } from '../bench/command/cli.ts';
import { runCli } from '../launcher/cli.ts';
import { CODECS, CODEC_SETTINGS } from '../src/spec/codecs.ts';
import { SampleFacts } from '../src/spec/dataFacts.ts';
import { STRATEGIES, type StrategyFacts } from '../src/spec/strategies.ts';
import { runTools } from '../tools/cli.ts';
import { runTorchParity } from '../tools/torch-parity/cli.ts';

const ROOT = path.resolve(import.meta.dirname, '..');

const PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll(path.sep, '/')}`),
];

/** Options of other programs that documents name: Chromium, npm, git, containers and vitest. */
const OTHERS = new Set([
  '--enable-dawn-features',
  '--global',
  '--gpus',
  '--network',
  '--no-git-tag-version',
  '--prefix',
  '--project',
  '--save-dev',
  '--tags',
]);

/** Deployment files. Their lines that start the launcher may name only options of the launcher. */
const DEPLOYED = [
  'docs/SERVERS.md',
  'docs/DEPLOY.md',
  ...readdirSync(path.join(ROOT, 'deploy')).map((name) => `deploy/${name}`),
];

const COMMANDS = [[], ['serve'], ['run'], ['join'], ['check-network'], ['example']];
const TOOLS = [[], ['chaos'], ['crash-recovery'], ['pipeline-recovery']];

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');

/** Returns the text without code, because brackets in code are not links. */
const proseOf = (text: string): string => text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');

const LINK = /\]\(([^()\s]+)\)|\b(?:src|href)="([^"]+)"/g;

const linksOf = (text: string): string[] =>
  Array.from(proseOf(text).matchAll(LINK), (match) => match[1] ?? match[2]!).filter((link) => !/^\w+:/.test(link));

/** Returns the anchors of a page's headings, as GitHub creates them. */
const headingsOf = (text: string): string[] =>
  Array.from(text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm), ([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  );

/** Returns the command-line options in code blocks and code spans. */
const optionsOf = (text: string): string[] =>
  Array.from(text.matchAll(/^```[\s\S]*?^```|`[^`\n]+`/gm), ([code]) =>
    Array.from(code.matchAll(/(?<![\w-])--[a-z][\w-]*/g), ([option]) => option),
  ).flat();

/**
 * Returns the options on lines that start the launcher, and on lines with arguments of a container.
 */
const optionsOnOwnLines = (text: string): string[] =>
  Array.from(text.matchAll(/(?:peergrad(?:-cli)? (?:serve|run|join)\b|args: \[).*/g), ([line]) =>
    Array.from(line.split(/ [12]> /)[0]!.matchAll(/(?<![\w-])--[a-z][\w-]*/g), ([option]) => option),
  ).flat();

/** Returns the files and folders of the source tree that code spans name. */
const pathsOf = (text: string): string[] =>
  Array.from(text.matchAll(/`((?:src|signaling|launcher|tools|bench|deploy)\/[\w./-]*)`/g), ([, name]) => name!);

describe('links in documents', () => {
  test('are found', () => {
    expect(PAGES).toEqual(expect.arrayContaining(['README.md', 'docs/LIMITS.md', 'docs/adr/0008-generations.md']));
    expect(linksOf(read('README.md'))).toEqual(expect.arrayContaining(['docs/run.png', 'docs/tour.md']));
    expect(linksOf(read('docs/tour.md'))).toContain('tour/home-light-wide.webp');
    expect(headingsOf('# A rank, and `n`\n## On 2 GPUs')).toEqual(['a-rank-and-n', 'on-2-gpus']);
  });

  test.each(PAGES)('have existing targets in %s', (page) => {
    for (const link of linksOf(read(page))) {
      const [target, heading] = link.split('#', 2);
      const file = target === '' ? page : path.posix.join(path.posix.dirname(page), target!);
      expect(existsSync(path.join(ROOT, file)), `${page} links ${link}`).toBe(true);
      if (heading !== undefined) expect(headingsOf(read(file)), `${page} links ${link}`).toContain(heading);
    }
  });
});

describe('the index docs/README.md', () => {
  test.each(PAGES.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md'))(
    'contains a link to %s',
    (page) => {
      expect(linksOf(read('docs/README.md'))).toContain(page.slice('docs/'.length));
    },
  );
});

describe('paths in documents', () => {
  test('are found', () => {
    expect(pathsOf('see `src/util` and `launcher/cli.ts`, not `srcs/x`')).toEqual(['src/util', 'launcher/cli.ts']);
  });

  test.each(PAGES)('exist if %s names them', (page) => {
    const missing = pathsOf(read(page)).filter((name) => !existsSync(path.join(ROOT, name)));
    expect(missing).toEqual([]);
  });
});

const spansOf = (text: string): string[] => Array.from(text.matchAll(/`([\w./-]+)`/g), ([, span]) => span!);

const foldersOf = (text: string): string[] =>
  spansOf(text).filter((name) => statSync(path.join(ROOT, name), { throwIfNoEntry: false })?.isDirectory());

/**
 * Returns the TypeScript files and the folders that a feature page names, each with the folders to
 * which the name may be relative: in a table, those in the table's head; elsewhere, those that the
 * page names anywhere. A file name without a folder is only returned from tables, because
 * sentences also name files of users.
 */
function namesIn(text: string): { name: string; folders: string[] }[] {
  const ofPage = foldersOf(text);
  let head: string[] | null = null;
  return text.split('\n').flatMap((line) => {
    head = line.startsWith('|') ? (head ?? foldersOf(line)) : null;
    const pattern = head ? /\.tsx?$|\/$/ : /\/.*\.tsx?$/;
    const folders = ['', 'src', ...(head ?? ofPage)];
    return spansOf(line).flatMap((name) => (pattern.test(name) && !name.startsWith('/') ? [{ name, folders }] : []));
  });
}

describe('files and folders in feature pages', () => {
  test('are found', () => {
    const page = '`spec/plan.ts`, `x.ts`, `src/gpu`\n\n| file of `src/util` |\n|---|\n| `hash.ts`, `a/` |\n';
    expect(namesIn(page)).toEqual([
      { name: 'spec/plan.ts', folders: ['', 'src', 'src/gpu', 'src/util'] },
      { name: 'hash.ts', folders: ['', 'src', 'src/util'] },
      { name: 'a/', folders: ['', 'src', 'src/util'] },
    ]);
  });

  test.each(PAGES.filter((page) => page.startsWith('docs/features/')))('exist if %s names them', (page) => {
    const missing = namesIn(read(page)).filter(
      ({ name, folders }) => !folders.some((folder) => existsSync(path.join(ROOT, folder, name))),
    );
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});

/**
 * Steps of a call path: every `file: function` of a table row, `a -> b` in order. For a `file`
 * alone, the name is empty. A heading row names the folders of the rows below it. A file name
 * without a folder is in the folder of the file before it in its row.
 */
function callsOf(text: string): { row: string; file: string; name: string }[] {
  let folders: string[] = [];
  return text.split('\n').flatMap((row) => {
    const heading = /^\| \| \*\*(.*)\*\* \| \|$/.exec(row);
    if (heading) folders = [...heading[1]!.matchAll(/`([^`]+)`/g)].map(([, folder]) => folder!);
    if (!/^\| \d+ \|/.test(row)) return [];
    let file = '';
    return [...row.matchAll(/`([^`]*\.tsx?(?:: [^`]*)?)`/g)].flatMap(([, span]) =>
      span!.split(' -> ').map((part) => {
        const [, own, name] = /^(?:(\S+\.tsx?)(?:: |$))?(\S*)$/.exec(part)!;
        if (own !== undefined) {
          const isBeside = file !== '' && !own.includes('/');
          const places = (isBeside ? [path.posix.dirname(file)] : ['', ...folders]).map((folder) =>
            path.posix.join(folder, own),
          );
          file = places.find((place) => existsSync(path.join(ROOT, place))) ?? own;
        }
        return { row, file, name: name! };
      }),
    );
  });
}

describe('call paths in ARCHITECTURE.md', () => {
  const calls = callsOf(read('docs/ARCHITECTURE.md'));

  test('are found', () => expect(calls.length).toBeGreaterThan(50));

  test.each(calls.map((call) => [call.file, call.name, call.row] as const))('%s: %s exists', (file, name, row) => {
    expect(existsSync(path.join(ROOT, file)), row).toBe(true);
    if (name === '') return;
    // The line of a definition does not end with a semicolon, that of a call does.
    const method = `^ +(?:(?:static|async|protected|get) )*${name}[<(](?:.*[^;])?$`;
    const defined = new RegExp(`${method}|function\\*? ${name}\\b|const ${name} = `, 'm');
    expect(read(file), `${row}: ${file} has no function ${name}`).toMatch(defined);
  });
});

describe('commands', () => {
  /** Options of the launcher, and of all commands. */
  let ofLauncher: Set<string>;
  let known: Set<string>;
  beforeAll(async () => {
    const lines: string[] = [];
    const { signal } = new AbortController();
    const io = { out: (line: string) => void lines.push(line), err: () => {}, terminal: null, signal };
    const options = (): Set<string> => new Set(lines.join('\n').match(/--[a-z][\w-]*/g));
    for (const command of COMMANDS) await runCli([...command, '--help'], io);
    ofLauncher = options();
    for (const tool of TOOLS) await runTools([...tool, '--help'], io);
    for (const { name } of BENCHMARKS) await runBench([name, '--help'], io);
    await runBench(['all', '--help'], io);
    await runTorchParity(['--help'], io);
    // The conformance command runs when it is imported.
    lines.push(read('test/conformance/main.ts'));
    known = options();
  });

  test('are found with their options in the help texts', () => {
    expect([...known]).toEqual(expect.arrayContaining(['--relay-only', '--rdzv-id', '--name', '--minutes']));
    expect(optionsOf('`--a` and\n```sh\nx --b-c 1\n```\n--not -- this')).toEqual(['--a', '--b-c']);
  });

  test.each(PAGES)('have all options that %s names', (page) => {
    const missing = optionsOf(read(page)).filter((option) => !known.has(option) && !OTHERS.has(option));
    expect(missing).toEqual([]);
  });

  test('are found in deployment files', () => {
    expect(optionsOnOwnLines('docker run --rm peergrad join x --stay 2> >(jq --raw)')).toEqual(['--stay']);
    for (const file of ['deploy/job.yaml', 'deploy/peergrad-join.service']) {
      expect(optionsOnOwnLines(read(file)), file).toContain('--json-lines');
    }
  });

  test.each(DEPLOYED)('have all options that %s passes', (file) => {
    for (const option of optionsOnOwnLines(read(file)))
      expect([...ofLauncher], `${file} names ${option}`).toContain(option);
  });

  test.each(PAGES)('exist as npm scripts if %s names them', (page) => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    for (const [, script] of read(page).matchAll(/npm run (?:-s )?([\w:-]+)/g)) {
      expect(Object.keys(scripts), `${page} runs ${script}`).toContain(script);
    }
  });
});

/** Returns the field names of all objects in a schema. */
function namesOf(schema: unknown): string[] {
  const { entries, item, wrapped } = schema as Record<'entries' | 'item' | 'wrapped', Record<string, unknown>>;
  const inner = [...(item ? [item] : []), ...(wrapped ? [wrapped] : []), ...Object.values(entries ?? {})];
  return [...Object.keys(entries ?? {}), ...inner.flatMap(namesOf)];
}

test('docs/export.md describes every field of the facts in model files', () => {
  const described = read('docs/export.md');
  // `untrained` is only used while ranks compare their data, and is not stored in model files.
  const names = SampleFacts.options.flatMap(namesOf).filter((name) => name !== 'untrained');
  expect(names).toContain('moments');
  expect(names.filter((name) => !described.includes(`\`${name}\``))).toEqual([]);
});

/** Returns the cells of the rows of the table whose first heading cell is `head`. */
function tableOf(text: string, head: string): string[][] {
  const lines = text.split('\n');
  const rows = lines.slice(lines.findIndex((line) => line.startsWith(`| ${head} |`)) + 2);
  return rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith('|')),
    )
    .map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

const yesNo = (is: boolean): string => (is ? 'yes' : 'no');
const outerOf = ({ local }: StrategyFacts): string => {
  if (local === null) return '-';
  const { name, learningRate, momentum } = local.outer;
  return [name, learningRate, ...(momentum === undefined ? [] : [momentum])].join(', ');
};
const codecsOf = ({ codecs }: StrategyFacts): string =>
  codecs.length === CODEC_SETTINGS.length ? 'all' : codecs.join(', ');

/** Returns the name in the first cell of each row. */
const firstNamesOf = (rows: string[][]): string[] => rows.map(([first]) => /`([\w-]+)`/.exec(first!)![1]!);

describe('the tables in docs/STRATEGIES.md', () => {
  const text = read('docs/STRATEGIES.md');

  test('contain the facts of every strategy', () => {
    expect(tableOf(text, 'facts of')).toEqual(
      Object.entries(STRATEGIES).map(([name, facts]) => [
        ...[`\`${name}\``, facts.exchanges, yesNo(facts.isSynchronous), yesNo(facts.isElastic)],
        yesNo(facts.hasCheckpoints),
        ...[yesNo(facts.hasAllReduces), codecsOf(facts), facts.optimizer],
        ...[String(facts.syncEvery ?? '-'), outerOf(facts), Object.keys(facts.excludes).join(', ') || '-'],
      ]),
    );
  });

  test('contain the facts of every codec', () => {
    expect(tableOf(text, 'codec')).toEqual(
      Object.entries(CODECS).map(([name, { share, encodes, exchanges, fitsPipelines }]) => [
        ...[`\`${name}\``, share ?? '-', encodes ?? '-', String(exchanges), yesNo(fitsPipelines)],
      ]),
    );
  });

  test('describe every strategy, and the methods that a run compares', () => {
    const compared = Object.entries(STRATEGIES).flatMap(([name, facts]) => facts.compared.map(() => name));
    expect([tableOf(text, 'strategy'), tableOf(text, 'method')].map(firstNamesOf)).toEqual([
      Object.keys(STRATEGIES),
      compared,
    ]);
  });
});
