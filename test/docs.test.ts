/** What the documentation refers to is there: files, headings, npm scripts, and in the guides options of the command line. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../launcher/cli.ts';

const ROOT = path.resolve(import.meta.dirname, '..');

const PAGES = [
  'README.md',
  ...readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll(path.sep, '/')}`),
];

/** Pages whose every option is the launcher's: others name options of benchmarks and browsers. */
const GUIDES = ['MACHINES', 'CLASSROOM', 'FOOTGUNS', 'COMPARISON', 'HOW-IT-WORKS'].map((name) => `docs/${name}.md`);

/** Of these, every option on a line that starts a command of ours is the launcher's. */
const DEPLOYED = [
  'docs/SERVERS.md',
  'docs/DEPLOY.md',
  ...readdirSync(path.join(ROOT, 'deploy')).map((name) => `deploy/${name}`),
];

const COMMANDS = ['serve', 'run', 'join', 'example', 'chaos', 'kills'];

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');

/** Without blocks of code, in which brackets are no links. */
const proseOf = (text: string): string => text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');

const LINK = /\]\(([^()\s]+)\)|\b(?:src|href)="([^"]+)"/g;

const linksOf = (text: string): string[] =>
  Array.from(proseOf(text).matchAll(LINK), (match) => match[1] ?? match[2]!).filter((link) => !/^\w+:/.test(link));

/** The names that a page's headings have in links, as GitHub makes them. */
const headingsOf = (text: string): string[] =>
  Array.from(text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm), ([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-'),
  );

/** Of blocks and pieces of code. */
const optionsOf = (text: string): string[] =>
  Array.from(text.matchAll(/^```[\s\S]*?^```|`[^`\n]+`/gm), ([code]) =>
    Array.from(code.matchAll(/(?<![\w-])--[a-z][\w-]*/g), ([option]) => option),
  ).flat();

/** Of lines that start a command of ours, or give a container its arguments. */
const optionsOnOwnLines = (text: string): string[] =>
  Array.from(text.matchAll(/(?:peergrad (?:serve|run|join)\b|args: \[).*/g), ([line]) =>
    Array.from(line.split(/ [12]> /)[0]!.matchAll(/(?<![\w-])--[a-z][\w-]*/g), ([option]) => option),
  ).flat();

describe('links', () => {
  test('are found', () => {
    expect(PAGES).toEqual(expect.arrayContaining(['README.md', ...GUIDES, 'docs/adr/0008-epochs.md']));
    expect(linksOf(read('README.md'))).toEqual(expect.arrayContaining(['docs/run.png', 'docs/tour.md']));
    expect(linksOf(read('docs/tour.md'))).toContain('tour/home-light-wide.webp');
    expect(headingsOf('# A rank, and `n`\n## On 2 GPUs')).toEqual(['a-rank-and-n', 'on-2-gpus']);
  });

  test.each(PAGES)('of %s lead somewhere', (page) => {
    for (const link of linksOf(read(page))) {
      const [target, heading] = link.split('#', 2);
      const file = target === '' ? page : path.posix.join(path.posix.dirname(page), target!);
      expect(existsSync(path.join(ROOT, file)), `${page} links ${link}`).toBe(true);
      if (heading !== undefined) expect(headingsOf(read(file)), `${page} links ${link}`).toContain(heading);
    }
  });
});

/** Without marks and line breaks. */
const plain = (text: string): string => text.replaceAll(/[`\\]/g, '').replaceAll(/\s+/g, ' ');

describe('the reference', () => {
  const folder = path.join(ROOT, 'docs/reference');
  const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  /** What the library exports, and the files that it comes from. */
  const exported = Array.from(
    read('src/index.ts').matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g),
    ([, names, from]) =>
      names!
        .split(',')
        .flatMap((name) => (name.trim() === '' ? [] : [{ name: name.replace('type ', '').trim(), from: from! }])),
  ).flat();

  /** All that its pages say: one where a type has its value's name. */
  const saidOf = (name: string): string =>
    plain(
      pages
        .filter((page) => new RegExp(`^${name}(-1)?\\.md$`).test(path.basename(page)))
        .map((page) => readFileSync(path.join(folder, page), 'utf8'))
        .join('\n')
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1'),
    );

  /** The first sentence of a declaration's docstring; `null` where it has none in that file. */
  function summaryOf({ name, from }: (typeof exported)[number]): string | null {
    const declared = new RegExp(
      String.raw`/\*\*((?:(?!\*/)[\s\S])*)\*/\s*export (?:async )?(?:class|function|interface|type|const) ${name}\b`,
    );
    const [, doc] = declared.exec(read(path.posix.join('src', from))) ?? [];
    if (doc === undefined) return null;
    const text = plain(doc.replaceAll(/^\s*\* ?/gm, '').replaceAll(/\{@link ([\w.]+)\}/g, '$1'));
    return text
      .trim()
      .split(/(?<=[.:]) |@/, 1)[0]!
      .trim();
  }

  test('has a page for all that the library exports', () => {
    expect(exported.length).toBeGreaterThan(60);
    for (const { name } of exported) expect(saidOf(name), `${name}: npm run reference`).not.toBe('');
  });

  test('says what docstrings say', () => {
    const summaries = exported.flatMap((each) => ({ ...each, summary: summaryOf(each) }));
    expect(summaries.filter(({ summary }) => summary !== null).length).toBeGreaterThan(40);
    for (const { name, summary } of summaries) {
      if (summary !== null) expect(saidOf(name), `${name}: npm run reference`).toContain(summary);
    }
  });
});

describe('commands', () => {
  let known: Set<string>;
  beforeAll(async () => {
    const lines: string[] = [];
    const { signal } = new AbortController();
    const io = { out: (line: string) => void lines.push(line), err: () => {}, terminal: null, signal };
    for (const command of COMMANDS) await runCli([command, '--help'], io);
    known = new Set(lines.join('\n').match(/--[a-z][\w-]*/g));
  });

  test('have their options found', () => {
    expect([...known]).toEqual(expect.arrayContaining(['--relay-only', '--rdzv-id', '--name', '--minutes']));
    expect(optionsOf('`--a` and\n```sh\nx --b-c 1\n```\n--not -- this')).toEqual(['--a', '--b-c']);
  });

  test.each(GUIDES)('in %s have the options that it names', (page) => {
    for (const option of optionsOf(read(page))) expect([...known], `${page} names ${option}`).toContain(option);
  });

  test('are found where they are started', () => {
    expect(optionsOnOwnLines('docker run --rm peergrad join x --stay 2> >(jq --raw)')).toEqual(['--stay']);
    for (const file of ['deploy/job.yaml', 'deploy/peergrad-join.service']) {
      expect(optionsOnOwnLines(read(file)), file).toContain('--json-lines');
    }
  });

  test.each(DEPLOYED)('that %s starts have the options that it names', (file) => {
    for (const option of optionsOnOwnLines(read(file))) expect([...known], `${file} names ${option}`).toContain(option);
  });

  test.each(PAGES)('of npm in %s are scripts', (page) => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    for (const [, script] of read(page).matchAll(/npm run (?:-s )?([\w:-]+)/g)) {
      expect(Object.keys(scripts), `${page} runs ${script}`).toContain(script);
    }
  });
});
