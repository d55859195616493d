/**
 * Checks those prose rules of CONTRIBUTING.md that regular expressions can check: plain English,
 * and comments that begin with their subject.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');
const COLUMNS = 100;

const files = ['src', 'signaling', 'launcher', 'tools', 'bench', 'examples', 'test'].flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `${folder}/${name.replaceAll(path.sep, '/')}`),
);

interface CommentLine {
  line: string;
  number: number;
  /** Whether this line has the first text of the comment. */
  isFirst: boolean;
}

const MARK = /^\s*(\/\*\*?|\*|\/\/)(\s|$)/;
const HAS_TEXT = /^\s*(\/\*\*?|\*|\/\/)\s+\S/;

/** Returns the lines that are part of a comment, with their numbers from 1. */
const commentsOf = (text: string): CommentLine[] => {
  const lines = text.split('\n');
  const isComment = (i: number): boolean => i >= 0 && MARK.test(lines[i]!);
  return lines.flatMap((line, i) => {
    if (!isComment(i)) return [];
    // The first text of a block comment may stand below its `/**`.
    const isBelowOpening = isComment(i - 1) && /^\s*\/\*\*?\s*$/.test(lines[i - 1]!);
    const isFirst = HAS_TEXT.test(line) && (/^\s*\/\*/.test(line) || !isComment(i - 1) || isBelowOpening);
    return [{ line, number: i + 1, isFirst }];
  });
};

const OPENINGS = /^\s*(\/\*\*?|\*|\/\/)\s+(Of|Who|Whoever|Whose|That which|Those|By whom|To whom)\b(?! its own)/;
const WORDS = /\b(is no number|are no numbers|is none|anew|be it|of late|for ever|so that \w+ is to be)\b/;

describe('comments', () => {
  test.each(files)('follow the rules for comments in %s', (file) => {
    const comments = commentsOf(readFileSync(path.join(ROOT, file), 'utf8'));
    const found = comments.flatMap(({ line, number, isFirst }) => [
      ...(isFirst && OPENINGS.test(line) ? [`${file}:${number} opens with a fragment: ${line.trim()}`] : []),
      ...(WORDS.test(line) ? [`${file}:${number} has ${WORDS.exec(line)![0]}: ${line.trim()}`] : []),
      ...(line.length > COLUMNS && !/https?:\/\//.test(line)
        ? [`${file}:${number} has ${line.length} columns, more than ${COLUMNS}`]
        : []),
    ]);
    expect(found).toEqual([]);
  });
});
