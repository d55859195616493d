/**
 * Shows the content of files before a run: rows and columns, classes, and some pictures, or the
 * error.
 */
import { useEffect, useRef } from 'preact/hooks';
import type { LoadProgress } from '../../protocol/events.ts';
import {
  type ColumnKind,
  type DataNote,
  type ImagesPreview,
  type DataPreview,
  type PreviewClass,
  type PreviewPicture,
  sentencesOfNotes,
  type TablePreview,
} from '../../spec/preview.ts';
import { formatCount } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import { Loading } from '../components/Loading.tsx';
import { ErrorText } from '../components/ErrorText.tsx';

/** The largest number of classes that is listed. */
const LISTED = 12;

interface Props {
  preview: DataPreview | null;
  problem: string | null;
  opening: LoadProgress | null;
}

export function FilesPreview({ preview, problem, opening }: Props) {
  const { files: labels } = uiMessages.value.lobby;
  return (
    <div class="preview">
      <ErrorText of={problem} />
      {opening !== null && <Loading {...opening} />}
      {/* Screen readers announce changes of this part, but not of the rows below it. */}
      <div class="small" aria-live="polite">
        <p>
          {preview === null && problem === null && <span class="dim">{labels.reading}</span>}
          {preview !== null && <Found preview={preview} />}
        </p>
        {preview !== null && <DataNotes notes={preview.notes} />}
      </div>
      {preview?.kind === 'table' && <TableRows table={preview} />}
      {preview?.kind === 'images' && <Pictures images={preview} />}
      {preview?.kind === 'gpt' && (
        <blockquote class="preview-text small" lang="und">
          {preview.beginning}
        </blockquote>
      )}
    </div>
  );
}

/** Shows the amount of data, and which part of it is used. */
function Found({ preview }: { preview: DataPreview }) {
  const { files: labels } = uiMessages.value.lobby;
  switch (preview.kind) {
    case 'table':
      return (
        <>
          {labels.rows(preview.rows, preview.columns.length)}{' '}
          {labels.predicts(<strong lang="und">{preview.target}</strong>, preview.task)}
        </>
      );
    case 'images':
      return (
        <>
          {labels.samples(preview.samples, preview.heldOut)} {labels.shape(...preview.shape)}
        </>
      );
    case 'gpt':
      return (
        <>
          {labels.characters(preview.characters, preview.vocabulary)} {labels.samples(preview.samples, preview.heldOut)}
        </>
      );
    default:
      return preview satisfies never;
  }
}

/** Shows notes: which data of the files are left out, changed or guessed. */
export function DataNotes({ notes }: { notes: readonly DataNote[] }) {
  const { files: labels } = uiMessages.value.lobby;
  return notes.length === 0 ? null : (
    <ul class="preview-notes">
      {sentencesOfNotes(notes, labels.notes).map((sentence) => (
        <li key={sentence}>{sentence}</li>
      ))}
    </ul>
  );
}

function TableRows({ table }: { table: TablePreview }) {
  const { files: labels } = uiMessages.value.lobby;
  return (
    <>
      <div class="preview-table" tabIndex={0} role="region" aria-label={labels.firstRows}>
        <table>
          <thead>
            <tr lang="und">
              {table.columns.map(({ name, kind }) => (
                <th key={name} scope="col" class={classOf(kind, name === table.target)}>
                  {name}
                </th>
              ))}
            </tr>
            <tr>
              {table.columns.map(({ name, kind, mark, missing, distinct }) => (
                <td key={name} class={`dim ${classOf(kind)}`}>
                  {[
                    labels.kinds[kind],
                    ...(mark === 'comma' ? [labels.decimalComma] : []),
                    ...(kind === 'category' && distinct !== null ? [labels.distinct(distinct)] : []),
                    ...(missing > 0 && kind !== 'empty' ? [labels.missing(missing)] : []),
                  ].join(', ')}
                </td>
              ))}
            </tr>
          </thead>
          <tbody lang="und">
            {table.sample.map((fields, row) => (
              <tr key={row}>
                {fields.map((field, i) => (
                  <td key={i} class={classOf(table.columns[i]!.kind)}>
                    {field}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Classes classes={table.classes} />
    </>
  );
}

function classOf(kind: ColumnKind, isTarget = false): string {
  return `${kind === 'number' ? 'number' : ''} ${isTarget ? 'target' : ''}`.trim();
}

function Pictures({ images }: { images: ImagesPreview }) {
  const { files: labels } = uiMessages.value.lobby;
  return (
    <>
      {images.pictures.length > 0 && (
        <ul class="plain preview-pictures" aria-label={labels.pictures}>
          {images.pictures.map((picture, i) => (
            <li key={i}>
              <ColourPicture picture={picture} />
              <span class="small ellipsis" lang="und">
                {picture.label}
              </span>
            </li>
          ))}
        </ul>
      )}
      <Classes classes={images.classes} />
    </>
  );
}

function Classes({ classes }: { classes: readonly PreviewClass[] }) {
  const { files: labels } = uiMessages.value.lobby;
  if (classes.length === 0) return null;
  return (
    <ul class="plain small preview-classes" aria-label={labels.classes}>
      {classes.slice(0, LISTED).map(({ name, count }) => (
        <li key={name}>
          <span lang="und">{name}</span> <span class="dim">{formatCount(count)}</span>
        </li>
      ))}
      {classes.length > LISTED && <li class="dim">{labels.more(classes.length - LISTED)}</li>}
    </ul>
  );
}

function ColourPicture({ picture }: { picture: PreviewPicture }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { pixels, height, width, channels } = picture;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    const image = context.createImageData(width, height);
    const grey = channels < 3;
    for (let at = 0; at < width * height; at++) {
      const [red, green, blue] = [0, 1, 2].map((channel) => pixels[at * channels + (grey ? 0 : channel)]!);
      image.data.set([red!, green!, blue!, 255], 4 * at);
    }
    context.putImageData(image, 0, 0);
  }, [pixels, height, width, channels]);
  return <canvas ref={canvas} width={width} height={height} aria-hidden="true" />;
}
