/** A dialog with a title. Its button, Escape, and a click outside of it close the dialog. */
import type { Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { uiMessages } from '../locales/index.ts';

export function Dialog({
  open,
  title,
  children,
}: {
  open: Signal<boolean>;
  title: string;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isOpen = open.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  const close = (): void => {
    open.value = false;
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby={id}
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <div class="help-body">
        <div class="row spread">
          <h2 id={id}>{title}</h2>
          <button type="button" class="quiet" onClick={close}>
            {uiMessages.value.shell.close}
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
