"""Networks that gain rank gradually: diagonal ones in stages that theory predicts, transformers as measured."""
