import { describe, expect, test } from 'vitest';
import { runTexts as en } from '../../../src/app/locales/en/run.tsx';
import { runTexts as zh } from '../../../src/app/locales/zh/run.tsx';
import { textOfNotice, type Notice } from '../../../src/protocol/notices.ts';

const NOTICES: [Notice, string[]][] = [
  [{ code: 'lost-place' }, []],
  [{ code: 'missed-end' }, []],
  [{ code: 'hangs', rank: 3, name: 'Bo', task: 'step 12', seconds: 95, isOver: false }, ['3', 'Bo', 'step 12', '95']],
  [{ code: 'hangs', rank: 3, name: 'Bo', task: '', seconds: 95, isOver: true }, ['3', 'Bo', '95']],
  [{ code: 'hangs-here', task: 'step 12', seconds: 95 }, ['step 12', '95']],
  [{ code: 'suspended', reason: 'hanging', seconds: 120 }, ['120']],
  [{ code: 'suspended', reason: 'unreachable', seconds: 30 }, ['30', 'VPN', '--turn']],
];

describe.each(NOTICES)('the notice %o', (notice, facts) => {
  test.each([
    ['English', en, /^[A-Z][^\u4e00-\u9fff]+\.$/],
    ['Chinese', zh, /^.*[\u4e00-\u9fff].*。$/],
  ])('has a sentence in %s that contains the facts of the notice', (_, { notices }, language) => {
    const text = textOfNotice(notice, notices);
    expect(text).toMatch(language);
    expect(facts.filter((fact) => !text.includes(fact))).toEqual([]);
    expect(text).not.toContain('undefined');
  });
});
